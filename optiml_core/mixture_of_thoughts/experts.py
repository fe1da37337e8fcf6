"""Frozen experts: causal language models of any family, seen as stacks of layers with hidden states in between."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from optiml_core.mixture_of_thoughts.byte_offsets import TokenBytes

MOST_SEGMENTS = 1 << 16  # remembered for each expert: tens of megabytes at most


class Expert:
    """One frozen model with its tokenizer. ``identity`` changes with its weights' shapes, config or vocabulary.

    ``start``: the tokens before every text of this model (a beginning-of-text token or none); they spell nothing.
    None asks the tokenizer, which some versions of transformers read from a GGUF file without saying so.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any, start: tuple[int, ...] | None = None) -> None:
        self.name = name
        self.model = model.eval().requires_grad_(False)
        self.tokenizer = tokenizer
        self.spelled = TokenBytes(tokenizer)
        self.layers: nn.ModuleList = decoder_layers(model)
        self.hidden_size: int = model.config.hidden_size
        self.identity = expert_identity(name, model, tokenizer)
        self.start = start_tokens(tokenizer) if start is None else start
        self._segments: dict[str, tuple[int, ...]] = {}

    def segment_ids(self, segment: str) -> tuple[int, ...]:
        """The ids of one segment of text. Code repeats its segments, so each is tokenized once."""
        found = self._segments.get(segment)
        if found is None:
            found = tuple(self.tokenizer(segment, add_special_tokens=False)["input_ids"])
            if len(self._segments) < MOST_SEGMENTS:
                self._segments[segment] = found
        return found

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def stack_ends(self, stacks: int) -> tuple[int, ...]:
        """Indices of the layers after which the first ``stacks - 1`` stacks end: as even as they can be."""
        count = len(self.layers)
        if count < stacks:
            raise ValueError(f"{self.name} has {count} layers, fewer than {stacks} stacks")
        return tuple(round(count * (index + 1) / stacks) - 1 for index in range(stacks - 1))

    def end_of_text(self) -> frozenset[int]:
        """The ids that end a generation."""
        found = {self.tokenizer.eos_token_id, self.model.config.eos_token_id}
        flat = {item for value in found for item in (value if isinstance(value, (list, tuple)) else [value])}
        return frozenset(int(item) for item in flat if item is not None)


def start_tokens(tokenizer: Any) -> tuple[int, ...]:
    """The beginning-of-text token if this tokenizer puts one before a text: some families read nothing without it."""
    begin = tokenizer.bos_token_id
    ids = tokenizer("a")["input_ids"]
    return (int(begin),) if begin is not None and len(ids) > 1 and ids[0] == begin else ()


def decoder_layers(model: Any) -> nn.ModuleList:
    """The model's list of decoder layers, whatever the family calls it."""
    for path in ("model.layers", "transformer.h", "gpt_neox.layers", "model.decoder.layers"):
        found: Any = model
        for part in path.split("."):
            found = getattr(found, part, None)
        if isinstance(found, nn.ModuleList):
            return found
    raise ValueError(f"no list of decoder layers in {type(model).__name__}")


def expert_identity(name: str, model: Any, tokenizer: Any) -> str:
    """A digest of what an adapter depends on: architecture, sizes, vocabulary and a sample of the weights."""
    digest = hashlib.sha256()
    config = model.config
    facts = [
        type(model).__name__,
        config.hidden_size,
        config.num_hidden_layers,
        config.vocab_size,
        len(tokenizer),
    ]
    digest.update(json.dumps(facts).encode())
    for key, tensor in sorted(model.state_dict().items()):
        digest.update(key.encode())
        digest.update(json.dumps(list(tensor.shape)).encode())
        sample = tensor.detach().flatten()[:64].to(torch.float32).cpu().numpy()
        digest.update(sample.tobytes())
    return f"{name}:{digest.hexdigest()[:32]}"


@contextmanager
def layer_outputs(
    expert: Expert, indices: Sequence[int], visit: Callable[[int, Tensor], Tensor | None]
) -> Iterator[None]:
    """Calls ``visit(position in indices, hidden states)`` after each of these layers; what it returns replaces them."""

    def hook_for(position: int) -> Callable[[nn.Module, Any, Any], Any]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            hidden = output[0] if isinstance(output, tuple) else output
            changed = visit(position, hidden)
            if changed is None:
                return None
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        return hook

    handles = [expert.layers[index].register_forward_hook(hook_for(n)) for n, index in enumerate(indices)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class CachedExpert:
    """An expert that reads tokens as they come, with its key-value cache; gives hidden states after each stack."""

    def __init__(self, expert: Expert, ends: tuple[int, ...]) -> None:
        from transformers import DynamicCache

        self.expert = expert
        self._ends = ends
        self._cache: Any = DynamicCache(config=expert.model.config)
        self.length = 0

    def read(
        self, ids: Sequence[int], visit: Callable[[int, Tensor], Tensor | None] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Reads ``ids`` (at least one). Returns logits ``(1, len, vocab)`` and the hidden states after each stack."""
        states: list[Tensor] = []

        def watch(position: int, hidden: Tensor) -> Tensor | None:
            changed = visit(position, hidden) if visit is not None else None
            states.append(hidden if changed is None else changed)
            return changed

        tokens = torch.tensor([list(ids)], device=self.expert.device)
        with layer_outputs(self.expert, self._ends, watch):
            output = run_model(self.expert.model, tokens, self._cache)
        self.length += len(ids)
        return output, states


def run_model(model: Any, ids: Tensor, cache: Any = None, attention_mask: Tensor | None = None) -> Tensor:
    """The logits of ``ids``; ``cache`` is extended in place if given."""
    more: dict[str, Any] = {}
    if cache is not None:
        # transformers renamed the argument in version 5; the older name still works before that.
        more[_cache_argument(model)] = cache
        more["use_cache"] = True
    else:
        more["use_cache"] = False
    logits: Tensor = model(input_ids=ids, attention_mask=attention_mask, **more).logits
    return logits


def _cache_argument(model: Any) -> str:
    import inspect

    inner = getattr(model, "model", None) or getattr(model, "transformer", model)
    names = inspect.signature(inner.forward).parameters
    return "cache" if "cache" in names else "past_key_values"
