"""Any OpenAI-compatible endpoint: vLLM, Ollama, llama.cpp's server or a hosted one, by the ``openai`` package.

A key is bound to the endpoint it was entered for, lives in memory only and is cut out of every message.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen

from optiml_core.language_models.interface import Answer, Message, Sample, SamplingSettings, Usage
from optiml_core.records import Failure

MOST_ANSWER_BYTES = 1 << 20  # an answer longer than this is no kernel
PARALLEL_SAMPLES = 4
RETRY_SECONDS = (0.5, 2.0)
# Between the end of the time, or cancelling, and leaving a request that has not noticed it: it may wait in the network.
GRACE_SECONDS = 0.3
_POLL_SECONDS = 0.05


@frozen
class EndpointSettings:
    """``base_url`` as the server documents it (often ending in ``/v1``), ``model`` its name there.

    ``key_variable``: the environment variable that holds the key; the key itself is never stored.
    """

    base_url: str
    model: str
    key_variable: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@frozen
class EndpointModel:
    """A chat endpoint behind ``interface.LanguageModel``."""

    settings: EndpointSettings
    key: str = field(default="", repr=False)

    @classmethod
    def from_settings(cls, settings: EndpointSettings, key: str | None = None) -> EndpointModel | Failure:
        """Checks the address and finds the key (given, else from its variable)."""
        parts = urlsplit(settings.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return Failure("bad-input", f"no model endpoint: {settings.base_url!r}", cure="give a URL, http or https")
        if parts.username or parts.password:
            return Failure("bad-input", "a URL must not hold a password", cure="put the key into a variable")
        if not settings.model:
            return Failure("bad-input", "the endpoint's model has no name", cure="name the model to ask for")
        found = key if key is not None else os.environ.get(settings.key_variable, "") if settings.key_variable else ""
        if settings.key_variable and not found:
            return Failure(
                "bad-input", f"the variable {settings.key_variable} is empty", cure="set it to the endpoint's key"
            )
        if found and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            cure = "use https, or an endpoint on this machine"
            return Failure("refused", "a key would travel unencrypted", cure=cure)
        return cls(settings, found)

    @property
    def name(self) -> str:
        return self.settings.model

    @property
    def destination(self) -> str:
        parts = urlsplit(self.settings.base_url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")

    def ask(
        self,
        messages: tuple[Message, ...],
        settings: SamplingSettings,
        *,
        on_text: Callable[[int, str], None] = lambda sample, text: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Answer | Failure:
        """One streaming request per sample, a few at once; see ``LanguageModel.ask``."""
        try:
            import openai
        except ImportError:
            return Failure("missing-package", "the package `openai` is not installed", cure="pip install 'optiml[llm]'")
        started = time.monotonic()
        deadline = started + settings.seconds

        def over() -> bool:
            return cancelled() or time.monotonic() > deadline

        client = openai.OpenAI(
            base_url=self.settings.base_url,
            api_key=self.key or "none",
            timeout=min(settings.seconds, 60.0),
            max_retries=0,  # our own retries know the deadline
            default_headers=dict(self.settings.headers),
        )
        try:
            ended = _several(
                lambda index: self._one(client, messages, settings, index, on_text, over), settings.samples, over
            )
        finally:
            client.close()
        late = Failure("timeout", f"{self.destination} did not answer in time", cure="check that the endpoint runs")
        missing = Failure("cancelled", "cancelled") if cancelled() else late
        results = [missing if result is None else result for result in ended]
        samples = tuple(result[0] for result in results if not isinstance(result, Failure))
        failures = tuple(result for result in results if isinstance(result, Failure))
        if not samples:
            return failures[0] if failures else Failure("bad-answer", "the endpoint sent no sample")
        usage = Usage(
            sum(result[1].prompt_tokens for result in results if not isinstance(result, Failure)),
            sum(result[1].answer_tokens for result in results if not isinstance(result, Failure)),
        )
        return Answer(samples, usage, self.name, time.monotonic() - started, failures)

    def _one(
        self,
        client: Any,
        messages: tuple[Message, ...],
        settings: SamplingSettings,
        index: int,
        on_text: Callable[[int, str], None],
        over: Callable[[], bool],
    ) -> tuple[Sample, Usage] | Failure:
        import openai

        request: dict[str, Any] = {
            "model": self.settings.model,
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "max_tokens": settings.tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if settings.seed is not None:
            request["seed"] = settings.seed + index
        if settings.stop:
            request["stop"] = list(settings.stop)
        try:
            for wait in (*RETRY_SECONDS, None):
                try:
                    with client.chat.completions.create(**request) as stream:
                        sample, usage = _collect(stream, index, on_text, over)
                    break
                except openai.APIStatusError as error:
                    if wait is None or over() or (error.status_code != 429 and error.status_code < 500):
                        return self._failure(error)
                    time.sleep(wait)
            if not sample.text and not sample.finished and not over():
                return Failure("bad-answer", f"{self.destination} sent no text at all")
            return sample, usage
        except openai.APITimeoutError:
            return Failure("timeout", f"{self.destination} did not answer in time", cure="check that the endpoint runs")
        except openai.APIConnectionError:
            cure = "check that the endpoint runs"
            return Failure("no-connection", f"{self.destination} cannot be reached", cure=cure)
        except Exception as error:  # noqa: BLE001 - a server may send anything, and the HTTP library has its own errors
            if "timeout" in type(error).__name__.lower():
                return Failure("timeout", f"{self.destination} stopped answering", cure="check that the endpoint runs")
            text = self._without_key(str(error))[:200]
            return Failure("bad-answer", f"{self.destination} sent what is no answer: {text}")

    def _failure(self, error: Any) -> Failure:
        status = int(error.status_code)
        cures = {
            401: "check the key and the endpoint it belongs to",
            403: "check what the key may be used for",
            404: f"check the address and the model's name ({self.settings.model})",
            429: "wait, or lower the number of samples",
        }
        text = self._without_key(str(getattr(error, "message", error)))[:200]
        return Failure(f"http-{status}", f"{self.destination} answered {status}: {text}", cure=cures.get(status, ""))

    def _without_key(self, text: str) -> str:
        return text.replace(self.key, "<key>") if self.key else text


def _several(
    one: Callable[[int], tuple[Sample, Usage] | Failure], count: int, over: Callable[[], bool]
) -> list[tuple[Sample, Usage] | Failure | None]:
    """``one`` for each index below ``count``, a few at once; None for what had not ended a moment after ``over``.

    Its threads end with the process: one that waits in the network must not keep a cancelled command from ending.
    """
    results: list[tuple[Sample, Usage] | Failure | None] = [None] * count
    indexes = iter(range(count))
    taking = threading.Lock()

    def work() -> None:
        while not over():
            with taking:
                index = next(indexes, None)
            if index is None:
                return
            results[index] = one(index)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(PARALLEL_SAMPLES, count))]
    for thread in threads:
        thread.start()
    end: float | None = None
    for thread in threads:
        while thread.is_alive() and (end is None or time.monotonic() < end):
            if end is None and over():
                end = time.monotonic() + GRACE_SECONDS
            thread.join(_POLL_SECONDS)
    return list(results)


def _collect(
    stream: Iterator[Any], index: int, on_text: Callable[[int, str], None], over: Callable[[], bool]
) -> tuple[Sample, Usage]:
    pieces: list[str] = []
    size = 0
    usage = Usage()
    finished = False
    for chunk in stream:
        if getattr(chunk, "usage", None):
            usage = Usage(chunk.usage.prompt_tokens or 0, chunk.usage.completion_tokens or 0)
        for choice in getattr(chunk, "choices", None) or ():
            text = getattr(choice.delta, "content", None)
            if text:
                pieces.append(text)
                size += len(text)
                on_text(index, text)
            if choice.finish_reason is not None:
                finished = choice.finish_reason == "stop"
        if size > MOST_ANSWER_BYTES or over():
            finished = False
            break
    return Sample("".join(pieces), finished), usage
