"""Local models by ``transformers``: a folder, a GGUF file or a name on the hub that is already on this machine.

Only safetensors and GGUF weights are read and no code of a model ever runs (``trust_remote_code=False``): a
pickled checkpoint is a program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import frozen

from optiml_core.language_models.interface import Answer, Message, Sample, SamplingSettings, Usage
from optiml_core.language_models.presets import find_preset
from optiml_core.records import Failure


@frozen
class LocalSettings:
    """``model``: a preset's name, a folder, a hub name or a ``.gguf`` file.

    ``dtype``: auto, float32, bfloat16 or float16. ``device_map``: as transformers takes it ("auto", "cpu", "cuda:0").
    ``four_bit``: nf4 by bitsandbytes, where that is installed. ``download``: allow the hub to be asked.
    """

    model: str
    dtype: str = "auto"
    device_map: str = "auto"
    four_bit: bool = False
    download: bool = False


class LocalModel:
    """A causal language model of ``transformers`` behind ``interface.LanguageModel``."""

    def __init__(self, name: str, model: Any, tokenizer: Any, template: str = "", chat: bool | None = None) -> None:
        self._name = name
        self.model = model.eval()
        self.tokenizer = tokenizer
        self._template = template
        self._chat = bool(getattr(tokenizer, "chat_template", None)) if chat is None else chat

    @property
    def name(self) -> str:
        return self._name

    @property
    def destination(self) -> str:
        return "this machine"

    def prompt_text(self, messages: tuple[Message, ...]) -> str:
        """The prompt as the model was trained to read it: its chat template, else a plain completion."""
        if self._chat and getattr(self.tokenizer, "chat_template", None):
            turns = [{"role": message.role, "content": message.content} for message in messages]
            return str(self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        instruction = "\n\n".join(message.content for message in messages)
        return self._template.replace("{instruction}", instruction) if self._template else instruction + "\n"

    def ask(
        self,
        messages: tuple[Message, ...],
        settings: SamplingSettings,
        *,
        on_text: Callable[[int, str], None] = lambda sample, text: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Answer | Failure:
        """Samples one after the other, so that memory does not grow with their number."""
        import torch
        from transformers import StoppingCriteria, StoppingCriteriaList

        started = time.monotonic()
        deadline = started + settings.seconds

        class Stop(StoppingCriteria):
            def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
                over = cancelled() or time.monotonic() > deadline
                return torch.full((input_ids.shape[0],), over, dtype=torch.bool, device=input_ids.device)

        encoded = self.tokenizer(self.prompt_text(messages), return_tensors="pt", add_special_tokens=not self._chat)
        ids = encoded["input_ids"].to(self.model.device)
        limit = getattr(self.model.config, "max_position_embeddings", None)
        if limit is not None and ids.shape[1] + 16 > limit:
            return Failure("bad-input", f"the prompt has {ids.shape[1]} tokens, {self._name} reads {limit}")
        tokens = settings.tokens if limit is None else min(settings.tokens, limit - ids.shape[1])
        samples: list[Sample] = []
        written = 0
        for index in range(settings.samples):
            if cancelled() or time.monotonic() > deadline:
                break
            if settings.seed is not None:
                torch.manual_seed(settings.seed + index)
            sampled = settings.temperature > 0
            more: dict[str, Any] = {"temperature": settings.temperature, "top_p": settings.top_p} if sampled else {}
            try:
                with torch.inference_mode():
                    output = self.model.generate(
                        ids,
                        attention_mask=torch.ones_like(ids),
                        max_new_tokens=tokens,
                        do_sample=sampled,
                        pad_token_id=self.tokenizer.pad_token_id or self.tokenizer.eos_token_id,
                        stopping_criteria=StoppingCriteriaList([Stop()]),
                        **more,
                    )
            except torch.OutOfMemoryError:
                return Failure("out-of-memory", f"{self._name} ran out of memory", cure="use a smaller model or 4 bits")
            new = output[0, ids.shape[1] :]
            written += len(new)
            text = str(self.tokenizer.decode(new, skip_special_tokens=True))
            cut = min((text.find(stop) for stop in settings.stop if stop in text), default=-1)
            text = text if cut < 0 else text[:cut]
            on_text(index, text)
            samples.append(Sample(text, finished=len(new) < tokens and time.monotonic() <= deadline))
        if not samples:
            return Failure("cancelled" if cancelled() else "timeout", f"{self._name} wrote nothing")
        usage = Usage(int(ids.shape[1]) * len(samples), written)
        return Answer(tuple(samples), usage, self._name, time.monotonic() - started)


def load_local(settings: LocalSettings) -> LocalModel | Failure:
    """Loads a model. Every reason why it cannot be had is a Failure with its cure."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        return Failure("missing-package", f"{error.name} is not installed", cure="pip install 'optiml[llm]'")
    preset = find_preset(settings.model)
    where = preset.hub if preset else settings.model
    common: dict[str, Any] = {"trust_remote_code": False, "local_files_only": not settings.download}
    path = Path(where)
    if where.endswith(".gguf"):
        if not path.is_file():
            return Failure("bad-input", "no such file", where)
        where, common["gguf_file"] = str(path.parent), path.name
    elif path.is_dir() and not any(path.glob("*.safetensors")):
        return Failure(
            "refused",
            "no safetensors weights in this folder; pickled checkpoints are programs and are not read",
            where,
            cure="convert the model to safetensors or GGUF",
        )
    dtype = settings.dtype if settings.dtype == "auto" else getattr(torch, settings.dtype)
    loading: dict[str, Any] = {**common, "dtype": dtype}
    if "gguf_file" not in common:
        loading["use_safetensors"] = True
    if settings.device_map != "cpu":
        loading["device_map"] = settings.device_map
    if settings.four_bit:
        quantized = _four_bits(torch)
        if isinstance(quantized, Failure):
            return quantized
        loading["quantization_config"] = quantized
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, **common)
        model = AutoModelForCausalLM.from_pretrained(where, **loading)
    except (OSError, ValueError, ImportError, RuntimeError) as error:
        cure = "download it first, or allow downloads" if not settings.download else "check the name and the network"
        return Failure("missing-model", f"{settings.model} cannot be loaded: {str(error).splitlines()[0]}", cure=cure)
    return LocalModel(
        settings.model,
        model,
        tokenizer,
        preset.template if preset else "",
        preset.chat if preset else None,
    )


def _four_bits(torch: Any) -> Any:
    import importlib.util

    if importlib.util.find_spec("bitsandbytes") is None:
        return Failure("missing-package", "4-bit loading needs bitsandbytes", cure="pip install bitsandbytes")
    from transformers import BitsAndBytesConfig

    config: Any = BitsAndBytesConfig
    return config(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
