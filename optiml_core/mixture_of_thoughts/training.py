"""Training of the router and the interaction layers; the experts stay frozen.

Every step draws its pairs, noise and dropout from the seed and the step's number alone, so that a run which was
stopped and resumed is, on a CPU, bit for bit the run that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import field, frozen
from torch import nn

from optiml_core.mixture_of_thoughts.losses import Losses, LossWeights, held_out_bits_per_byte, losses_of
from optiml_core.mixture_of_thoughts.mixture import Mixture, Pair
from optiml_core.records import Failure

BASELINE_MEMORY = 0.95  # how much of the usual loss is kept a step


@frozen
class TrainingSettings:
    """``batch``: pairs a forward; ``accumulate``: forwards a step. Rates are AdamW's for the interaction layers;
    the router's and the gates' are multiples of it. ``warm_up``: steps, then a cosine down to a tenth.
    ``held_out_every``, ``held_out_pairs``: how often and on how many pairs the held-out loss is measured.
    ``primary``: this expert leads every prompt; None leaves it to the router."""

    steps: int = 1000
    batch: int = 8
    accumulate: int = 1
    learning_rate: float = 3e-4
    router_factor: float = 2.0
    gate_factor: float = 10.0
    warm_up: int = 20
    weight_decay: float = 0.01
    clip: float = 1.0
    weights: LossWeights = field(factory=LossWeights)
    held_out_every: int = 100
    held_out_pairs: int = 64
    primary: int | None = None
    seed: int = 0


class Training:
    """A mixture in training: its optimizer, how many steps are done and the loss that is usual."""

    def __init__(self, mixture: Mixture, settings: TrainingSettings) -> None:
        self.mixture = mixture
        self.settings = settings
        self.done = 0
        self.usual: float | None = None
        self.optimizer = torch.optim.AdamW(_parameter_groups(mixture, settings), lr=settings.learning_rate)

    def learning_rate(self) -> float:
        """Of the step to come: linear warm-up, then half a cosine down to a tenth."""
        settings = self.settings
        if self.done < settings.warm_up:
            return settings.learning_rate * (self.done + 1) / settings.warm_up
        rest = max(settings.steps - settings.warm_up, 1)
        at = min((self.done - settings.warm_up) / rest, 1.0)
        return settings.learning_rate * (0.1 + 0.45 * (1.0 + math.cos(math.pi * at)))

    def step(self, pairs: Sequence[Pair]) -> dict[str, Any] | Failure:
        """One optimizer step. Returns its log entry; a loss that is no number is a Failure and changes nothing."""
        settings = self.settings
        started = time.perf_counter()
        self.mixture.train()
        torch.manual_seed(_seed(settings.seed, self.done, 1))  # dropout
        noise = torch.Generator().manual_seed(_seed(settings.seed, self.done, 2))
        chosen = batch_of(len(pairs), settings, self.done)
        rate = self.learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimizer.zero_grad(set_to_none=True)
        parts: list[Losses] = []
        for start in range(0, len(chosen), settings.batch):
            some = [pairs[index] for index in chosen[start : start + settings.batch]]
            losses = losses_of(self.mixture, some, settings.weights, noise, self.usual, settings.primary)
            if not math.isfinite(float(losses.total.detach())):
                return Failure("diverged", f"step {self.done + 1}: the loss is {float(losses.total.detach())}")
            (losses.total * (len(some) / len(chosen))).backward()
            parts.append(losses)
        norm = float(nn.utils.clip_grad_norm_(self.mixture.parameters(), settings.clip))
        if not math.isfinite(norm):
            return Failure("diverged", f"step {self.done + 1}: the gradient's norm is {norm}")
        self.optimizer.step()
        self.done += 1
        seen = sum(part.usual * len(part.primaries) for part in parts) / len(chosen)
        self.usual = seen if self.usual is None else BASELINE_MEMORY * self.usual + (1 - BASELINE_MEMORY) * seen
        return {**self._entry(parts), "gradient": norm, "rate": rate, "seconds": time.perf_counter() - started}

    def _entry(self, parts: Sequence[Losses]) -> dict[str, Any]:
        rows = sum(len(part.primaries) for part in parts)

        def mean(name: str) -> float:
            return float(sum(getattr(part, name) * len(part.primaries) for part in parts) / rows)

        primaries = [primary for part in parts for primary in part.primaries]
        names = ("language", "bits_per_byte", "entropy", "balance", "consistency")
        with torch.no_grad():
            gates = [torch.tanh(layer.gates).tolist() for layer in self.mixture.interactions]
        return {
            "step": self.done,
            **{name: mean(name) for name in names},
            "tokens": sum(part.tokens for part in parts),
            "primaries": [primaries.count(index) for index in range(len(self.mixture.experts))],
            "gates": gates,
        }


def run_training(
    training: Training,
    trained: Sequence[Pair],
    held_out: Sequence[Pair],
    on_entry: Callable[[Mapping[str, Any]], None],
    cancelled: Callable[[], bool] = lambda: False,
) -> Failure | None:
    """Steps until the settings' number of them is done or ``cancelled``. ``on_entry`` gets every step's log entry.

    Every ``held_out_every`` steps and at the end an entry also has ``held_out_bits_per_byte``.
    """
    settings = training.settings
    measured = list(held_out[: settings.held_out_pairs])
    while training.done < settings.steps and not cancelled():
        entry = training.step(trained)
        if isinstance(entry, Failure):
            return entry
        last = training.done == settings.steps
        if measured and (last or training.done % settings.held_out_every == 0):
            bits = held_out_bits_per_byte(training.mixture, measured, settings.batch, settings.primary)
            entry = {**entry, "held_out_bits_per_byte": bits}
        on_entry(entry)
    return None


def batch_of(pairs: int, settings: TrainingSettings, step: int) -> list[int]:
    """The indices of a step's pairs: every epoch is a permutation of its own, and no state is kept."""
    size = settings.batch * settings.accumulate
    found: list[int] = []
    at = step * size
    while len(found) < size:
        epoch, first = divmod(at, pairs)
        order = torch.randperm(pairs, generator=torch.Generator().manual_seed(_seed(settings.seed, epoch, 3)))
        some = order[first : first + size - len(found)].tolist()
        found += some
        at += len(some)
    return found


def _parameter_groups(mixture: Mixture, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Router, gates and the rest; gates and biases do not decay."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in mixture.named_parameters():
        factor = settings.router_factor if name.startswith("router.") else 1.0
        factor = settings.gate_factor if name.endswith(".gates") else factor
        decay = settings.weight_decay if parameter.dim() > 1 else 0.0
        groups.setdefault((factor, decay), []).append(parameter)
    return [{"params": group, "factor": key[0], "weight_decay": key[1]} for key, group in groups.items()]


def _seed(seed: int, number: int, purpose: int) -> int:
    """Distinct for each seed, number and purpose below 2^31 and 2^29."""
    return ((seed & 0x7FFFFFFF) << 32) + (number << 3) + purpose
