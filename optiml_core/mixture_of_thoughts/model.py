"""A trained mixture as one language model among others: several experts, one answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from optiml_core.language_models.configuration import ConfiguredModel, TrainedMixtureSettings
from optiml_core.language_models.interface import Answer, LanguageModel, Message, Sample, SamplingSettings, Usage
from optiml_core.language_models.local import LocalSettings, load_local
from optiml_core.records import Failure

if TYPE_CHECKING:
    from optiml_core.mixture_of_thoughts.mixture import Mixture

ADAPTER = "adapter.safetensors"


def open_configured(entry: ConfiguredModel) -> LanguageModel | Failure:
    """Opens any configured model; a mixture with its experts and its adapter."""
    return open_mixture(entry.settings) if isinstance(entry.settings, TrainedMixtureSettings) else entry.open()


def open_mixture(settings: TrainedMixtureSettings) -> MixtureModel | Failure:
    """Loads the experts and the adapter that was trained with them. Every reason why not is a Failure."""
    try:
        from optiml_core.mixture_of_thoughts.adapter_files import load_adapter, read_settings
        from optiml_core.mixture_of_thoughts.experts import Expert
        from optiml_core.mixture_of_thoughts.mixture import Mixture
        from optiml_core.mixture_of_thoughts.router import HashedWordsEncoder
    except ImportError as error:
        return Failure("missing-package", f"{error.name} is not installed", cure="pip install 'optiml[llm]'")
    path = Path(settings.adapter)
    path = path / ADAPTER if path.is_dir() else path
    made_with = read_settings(path)  # before any expert: a wrong path should not cost their loading
    if isinstance(made_with, Failure):
        return made_with
    experts = []
    for name in settings.experts:
        loaded = load_local(LocalSettings(name, settings.dtype, settings.device_map))
        if isinstance(loaded, Failure):
            return loaded
        experts.append(Expert(Path(name).stem, loaded.model, loaded.tokenizer))
    try:
        mixture = Mixture(experts, HashedWordsEncoder(), made_with)
    except ValueError as error:
        return Failure("bad-input", str(error), str(path))
    mixture.to(experts[0].device)
    failure = load_adapter(mixture, path)
    return failure if failure is not None else MixtureModel(mixture.eval())


class MixtureModel:
    """Implements ``language_models.interface.LanguageModel``. Prompts are plain text, as in training."""

    def __init__(self, mixture: Mixture) -> None:
        self._mixture = mixture

    @property
    def name(self) -> str:
        return f"mixture of {', '.join(expert.name for expert in self._mixture.experts)}"

    @property
    def destination(self) -> str:
        return "this machine"

    def ask(
        self,
        messages: tuple[Message, ...],
        settings: SamplingSettings,
        *,
        on_text: Callable[[int, str], None] = lambda sample, text: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Answer | Failure:
        """Samples one after the other; the router reads the prompt, and every sample has the same primary."""
        import torch

        from optiml_core.mixture_of_thoughts.byte_offsets import UnalignedTokens
        from optiml_core.mixture_of_thoughts.decoding import Sampling, generate

        started = time.monotonic()
        deadline = started + settings.seconds
        prompt = ("\n\n".join(message.content for message in messages) + "\n").encode()
        stop = tuple(text.encode() for text in settings.stop)
        samples: list[Sample] = []
        written = 0
        for index in range(settings.samples):
            if cancelled() or time.monotonic() > deadline:
                break
            seed = index if settings.seed is None else settings.seed + index
            sampling = Sampling(settings.tokens, settings.temperature, settings.top_p, seed, stop)
            answer, count = b"", 0
            try:
                for piece in generate(
                    self._mixture, prompt, sampling, lambda: cancelled() or time.monotonic() > deadline
                ):
                    answer += piece
                    count += 1
                    # A token may end inside a character; what has come so far is shown whole at the end.
                    on_text(index, piece.decode("utf-8", "ignore"))
            except UnalignedTokens as error:
                return Failure("bad-input", f"{self.name}: {error}")
            except torch.OutOfMemoryError:
                return Failure("out-of-memory", f"{self.name} ran out of memory", cure="use smaller experts")
            written += count
            found = min((at for text in stop if (at := answer.find(text)) >= 0), default=len(answer))
            in_time = not cancelled() and time.monotonic() <= deadline
            text = answer[:found].decode("utf-8", "replace")
            samples.append(Sample(text, finished=found < len(answer) or (count < settings.tokens and in_time)))
        if not samples:
            return Failure("cancelled" if cancelled() else "timeout", f"{self.name} wrote nothing")
        return Answer(tuple(samples), Usage(0, written), self.name, time.monotonic() - started)
