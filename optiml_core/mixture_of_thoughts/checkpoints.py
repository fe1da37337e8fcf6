"""A training's state on disk: one safetensors file, written whole or not at all, and never loaded into another run.

It holds the trained weights, AdamW's moments, the number of steps done and the loss that was usual; in its header
what the run was: experts, encoder, both settings and the data. No pickles: a pickled file is a program.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import torch

from optiml_core.mixture_of_thoughts.adapter_files import adapter_facts
from optiml_core.mixture_of_thoughts.training import Training
from optiml_core.records import Failure

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "optiml-mixture-training-1"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def run_facts(training: Training, data_digest: str) -> dict[str, str]:
    """What a run is: a checkpoint of another run is refused."""
    return {
        **adapter_facts(training.mixture),
        "format": FORMAT,
        "training": json.dumps(attrs.asdict(training.settings), sort_keys=True),
        "data": data_digest,
    }


def save_checkpoint(training: Training, data_digest: str, path: Path) -> None:
    """Raises OSError."""
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {f"weights.{k}": v for k, v in training.mixture.state_dict().items()}
    for name, parameter in training.mixture.named_parameters():
        for moment, value in training.optimizer.state.get(parameter, {}).items():
            tensors[f"{moment}.{name}"] = torch.as_tensor(value)
    facts = {**run_facts(training, data_digest), "done": str(training.done), "usual": json.dumps(training.usual)}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, str(temporary), metadata=facts)
    with temporary.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load_checkpoint(training: Training, data_digest: str, path: Path) -> Failure | None:
    """Puts a training exactly where the checkpoint left it. Another run's is refused with the difference."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            facts = dict(file.metadata() or {})
            for key, wanted in run_facts(training, data_digest).items():
                if facts.get(key) != wanted:
                    return Failure(
                        "bad-input",
                        f"the checkpoint is another run's: its {key} differ ({_difference(facts.get(key), wanted)})",
                        str(path),
                        cure="give the same data and options, or another output folder",
                    )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        training.mixture.load_state_dict(
            {k.removeprefix("weights."): v for k, v in tensors.items() if k.startswith("weights.")}
        )
        _load_moments(training, tensors)
        training.done = int(facts["done"])
        training.usual = json.loads(facts["usual"])
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        return Failure("bad-input", f"no readable checkpoint: {error}", str(path), cure="remove it to start again")
    return None


def _load_moments(training: Training, tensors: dict[str, Tensor]) -> None:
    for name, parameter in training.mixture.named_parameters():
        found = {moment: tensors[f"{moment}.{name}"] for moment in MOMENTS if f"{moment}.{name}" in tensors}
        if found:
            # AdamW keeps its count of steps on the CPU, the moments beside the weights.
            training.optimizer.state[parameter] = {
                moment: value if moment == "step" else value.to(parameter.device) for moment, value in found.items()
            }


def _difference(found: str | None, wanted: str) -> str:
    """The entries that differ, where both are JSON objects; else both, shortened."""
    try:
        one, other = json.loads(found or ""), json.loads(wanted)
    except ValueError:
        one = other = None
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
        return ", ".join(f"{key}: {one.get(key)!r} there, {other.get(key)!r} here" for key in keys)
    return f"{_short(found)} there, {_short(wanted)} here"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else text[:117] + "..."
