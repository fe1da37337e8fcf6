"""The mixture: frozen experts, a router, one interaction layer per stack border.

``forward`` is teacher forcing over a batch of (prompt, answer) pairs: logits of each row's primary, which has
listened to its row's peers after every stack but the last.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import frozen
from torch import Tensor, nn

from optiml_core.mixture_of_thoughts.byte_offsets import OffsetTokens, encode_whole, offset_tokens, segment_tokens
from optiml_core.mixture_of_thoughts.experts import Expert, layer_outputs, run_model
from optiml_core.mixture_of_thoughts.interaction import NEVER, InteractionLayer, PeerStates
from optiml_core.mixture_of_thoughts.router import PromptEncoder, Router, Routing


@frozen
class MixtureSettings:
    """``stacks``: Q of the paper; interaction happens after all but the last. ``active``: top-k, the primary included.

    ``shared``: size of the shared space, None for the smallest hidden size (rounded down to a multiple of ``heads``).
    """

    stacks: int = 4
    active: int = 2
    shared: int | None = None
    heads: int = 8
    router_hidden: int = 512
    dropout: float = 0.1
    interaction: bool = True


@frozen
class Pair:
    """A prompt and its answer, both as bytes of UTF-8 text."""

    prompt: bytes
    answer: bytes = b""


@frozen(eq=False)
class RowLogits:
    """One row's result: logits ``(len(tokens), vocabulary)`` of its primary over prompt and answer, and the tokens."""

    primary: int
    tokens: OffsetTokens
    prompt_tokens: int
    logits: Tensor


@frozen(eq=False)
class MixtureOutput:
    routing: Routing
    rows: tuple[RowLogits, ...]


class Mixture(nn.Module):
    """Only ``router`` and ``interactions`` are trained; experts and the prompt encoder are frozen and not saved."""

    def __init__(self, experts: Sequence[Expert], encoder: PromptEncoder, settings: MixtureSettings) -> None:
        super().__init__()
        if len({expert.name for expert in experts}) != len(experts):
            raise ValueError("every expert needs a name of its own")
        self.experts = tuple(experts)  # a tuple, not a ModuleList: frozen weights are no weights of the mixture
        self.encoder = encoder
        self.settings = settings
        self.stack_ends = tuple(expert.stack_ends(settings.stacks) for expert in experts)
        sizes = tuple(expert.hidden_size for expert in experts)
        shared = settings.shared or min(sizes) // settings.heads * settings.heads
        self.router = Router(encoder.size, len(experts), settings.active, settings.router_hidden, settings.dropout)
        self.interactions = nn.ModuleList(
            InteractionLayer(sizes, shared, settings.heads) for _ in range(settings.stacks - 1)
        )

    def route(
        self,
        prompts: Sequence[bytes],
        generator: torch.Generator | None = None,
        forced_primary: tuple[int, ...] | None = None,
    ) -> Routing:
        """Routes on the prompts alone, in training and in use."""
        embedded = self.encoder.encode([prompt.decode("utf-8", "replace") for prompt in prompts])
        device = next(self.router.parameters()).device
        routing: Routing = self.router(embedded.to(device), generator=generator, forced_primary=forced_primary)
        return routing

    def forward(
        self,
        pairs: Sequence[Pair],
        *,
        generator: torch.Generator | None = None,
        forced_primary: tuple[int, ...] | None = None,
    ) -> MixtureOutput:
        """Logits of every row's primary; rows are grouped by primary, so a batch equals its single rows."""
        routing = self.route([pair.prompt for pair in pairs], generator, forced_primary)
        found: dict[int, RowLogits] = {}
        for primary in sorted(set(routing.primary)):
            rows = [index for index, chosen in enumerate(routing.primary) if chosen == primary]
            found.update(zip(rows, self._group(primary, rows, pairs, routing), strict=True))
        return MixtureOutput(routing, tuple(found[index] for index in range(len(pairs))))

    def _group(self, primary: int, rows: list[int], pairs: Sequence[Pair], routing: Routing) -> list[RowLogits]:
        expert = self.experts[primary]
        tokens = []
        prompt_lengths = []
        for row in rows:
            prompt = expert.start + encode_whole(expert.tokenizer, expert.spelled, pairs[row].prompt)
            answer = encode_whole(expert.tokenizer, expert.spelled, pairs[row].answer) if pairs[row].answer else ()
            tokens.append(offset_tokens(expert.spelled, prompt + answer))
            prompt_lengths.append(len(prompt))
        ids, offsets, _ = _padded(tokens, expert)
        peers = self._peers(primary, rows, pairs, routing) if self.settings.interaction else []

        def listen(border: int, hidden: Tensor) -> Tensor | None:
            if not self.settings.interaction:
                return None
            layer = self.interactions[border]
            changed: Tensor = layer(primary, hidden, offsets, [states[border] for states in peers])
            return changed

        with layer_outputs(expert, self.stack_ends[primary], listen):
            logits = run_model(expert.model, ids)
        return [
            RowLogits(primary, token, length, logits[index, : len(token.ids)])
            for index, (token, length) in enumerate(zip(tokens, prompt_lengths, strict=True))
        ]

    def _peers(self, primary: int, rows: list[int], pairs: Sequence[Pair], routing: Routing) -> list[list[PeerStates]]:
        """For every peer active in one of these rows: its states at each border, hidden from the other rows."""
        found = []
        for index, expert in enumerate(self.experts):
            active = [bool(routing.active[row, index]) for row in rows]
            if index == primary or not any(active):
                continue
            tokens = [
                segment_tokens(
                    expert.segment_ids, expert.spelled, pairs[row].prompt + pairs[row].answer, 0, expert.start
                )[0]
                if on
                else OffsetTokens((), (), ())
                for row, on in zip(rows, active, strict=True)
            ]
            if not any(token.ids for token in tokens):
                continue
            ids, _, available = _padded(tokens, expert)
            hidden = hidden_states(expert, self.stack_ends[index], ids)
            weight = routing.weights[rows, index]
            found.append(
                [
                    layer.peer_states(index, state, available, weight)
                    for layer, state in zip(self.interactions, hidden, strict=True)
                ]
            )
        return found


@torch.no_grad()
def hidden_states(expert: Expert, ends: tuple[int, ...], ids: Tensor) -> list[Tensor]:
    """The hidden states of a whole batch of tokens after each of the layers ``ends``."""
    states: list[Tensor] = []
    with layer_outputs(expert, ends, lambda _, hidden: states.append(hidden)):
        run_model(expert.model, ids)
    return states


def _padded(tokens: list[OffsetTokens], expert: Expert) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, end offsets and availabilities, padded on the right, where no causal model looks.

    The padding's availability is never reached, so that no query sees it.
    """
    longest = max(len(token.ids) for token in tokens)
    filler = next(iter(sorted(expert.end_of_text())), 0)

    def rows(values: list[tuple[int, ...]], fill: int) -> Tensor:
        return torch.tensor([list(v) + [fill] * (longest - len(v)) for v in values], device=expert.device)

    return (
        rows([token.ids for token in tokens], filler),
        rows([token.ends for token in tokens], NEVER - 1),
        rows([token.available for token in tokens], NEVER),
    )


def answer_losses(row: RowLogits) -> Tensor:
    """Cross-entropy in nats of each of the answer's tokens, each predicted from everything before it."""
    ids = torch.tensor(row.tokens.ids, device=row.logits.device)
    first = max(row.prompt_tokens, 1)
    logits = row.logits[first - 1 : len(ids) - 1].float()
    return nn.functional.cross_entropy(logits, ids[first:], reduction="none")


def answer_loss(output: MixtureOutput) -> Tensor:
    """Mean cross-entropy a token of the answers, over the batch."""
    losses = torch.cat([answer_losses(row) for row in output.rows])
    if not len(losses):
        raise ValueError("no answer tokens to learn from")
    return losses.mean()
