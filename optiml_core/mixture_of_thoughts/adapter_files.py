"""Adapters on disk: router and interaction layers as safetensors, with the identity of the experts they belong to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from optiml_core.mixture_of_thoughts.mixture import Mixture, MixtureSettings
from optiml_core.records import Failure

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "optiml-mixture-1"


def adapter_facts(mixture: Mixture) -> dict[str, str]:
    """What an adapter fits: experts in order, prompt encoder, settings."""
    return {
        "format": FORMAT,
        "experts": json.dumps([expert.identity for expert in mixture.experts]),
        "encoder": mixture.encoder.identity,
        "settings": json.dumps(attrs.asdict(mixture.settings), sort_keys=True),
    }


def save_adapter(mixture: Mixture, path: Path) -> None:
    """Writes the trained weights whole or not at all. Raises OSError."""
    from safetensors.torch import save_file

    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in mixture.state_dict().items()}
    save_file(tensors, str(temporary), metadata=adapter_facts(mixture))
    os.replace(temporary, path)


def load_adapter(mixture: Mixture, path: Path) -> Failure | None:
    """Loads an adapter into a mixture of the very same experts; anything else is refused with the difference."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            facts = dict(file.metadata() or {})
            wanted = adapter_facts(mixture)
            for key in ("format", "experts", "encoder", "settings"):
                if facts.get(key) != wanted[key]:
                    return Failure(
                        "bad-input",
                        f"the adapter belongs to other {key}: {facts.get(key)!r}, here {wanted[key]!r}",
                        str(path),
                        cure="load the adapter with the experts it was trained with, or train a new one",
                    )
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        return Failure("bad-input", f"no readable adapter: {error}", str(path))
    try:
        mixture.load_state_dict(tensors)
    except RuntimeError as error:
        return Failure("bad-input", f"the adapter's weights do not fit: {error}", str(path))
    return None


def read_settings(path: Path) -> MixtureSettings | Failure:
    """The settings an adapter was made with."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            facts = dict(file.metadata() or {})
        return MixtureSettings(**json.loads(facts["settings"]))
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        return Failure("bad-input", f"no readable adapter: {error}", str(path))
