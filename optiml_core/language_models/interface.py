"""One small interface for every language model: a prompt in, several samples out, with budgets and cancelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from attrs import define, field, frozen

from optiml_core.records import Failure

Role = Literal["system", "user", "assistant"]


@frozen
class Message:
    role: Role
    content: str


@frozen
class SamplingSettings:
    """``samples`` answers of at most ``tokens`` new tokens each. ``seconds`` limits the whole call."""

    samples: int = 1
    tokens: int = 4096
    temperature: float = 0.7
    top_p: float = 0.95
    seed: int | None = None
    seconds: float = 120.0
    stop: tuple[str, ...] = ()


@frozen
class Usage:
    """Tokens read and written; 0 where a model does not say."""

    prompt_tokens: int = 0
    answer_tokens: int = 0


@frozen
class Sample:
    """One answer. ``finished`` False: it was cut by the token limit, the time limit or cancelling."""

    text: str
    finished: bool = True


@frozen
class Answer:
    """The samples of one call; ``failures`` of samples that did not come, if some did."""

    samples: tuple[Sample, ...]
    usage: Usage
    model: str
    seconds: float
    failures: tuple[Failure, ...] = ()


class LanguageModel(Protocol):
    """Implementations: ``endpoint.EndpointModel``, ``local.LocalModel``, ``scripted`` ones in tests."""

    @property
    def name(self) -> str:
        """For people and records; never holds a key."""
        ...

    @property
    def destination(self) -> str:
        """Where prompts go: a URL's scheme and host, or ``this machine``."""
        ...

    def ask(
        self,
        messages: tuple[Message, ...],
        settings: SamplingSettings,
        *,
        on_text: Callable[[int, str], None] = lambda sample, text: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Answer | Failure:
        """All samples, or why there are none. Never raises for what a model or a network does.

        ``on_text(sample, text)`` gets the text as it streams in, from any thread.
        """
        ...


@define
class SpendingLimit:
    """A budget of tokens and money over many calls. ``price`` is per million tokens (prompt, answer)."""

    tokens: int | None = None
    cost: float | None = None
    price: tuple[float, float] = (0.0, 0.0)
    spent_tokens: int = field(default=0, init=False)
    spent_cost: float = field(default=0.0, init=False)
    calls: int = field(default=0, init=False)

    def add(self, usage: Usage) -> None:
        self.calls += 1
        self.spent_tokens += usage.prompt_tokens + usage.answer_tokens
        self.spent_cost += (usage.prompt_tokens * self.price[0] + usage.answer_tokens * self.price[1]) / 1e6

    def exceeded(self) -> str:
        """Why no further call may be made, or an empty string."""
        if self.tokens is not None and self.spent_tokens >= self.tokens:
            return f"the budget of {self.tokens} tokens is spent"
        if self.cost is not None and self.spent_cost >= self.cost:
            return f"the budget of {self.cost:g} is spent"
        return ""
