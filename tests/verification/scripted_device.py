"""A device that runs Python functions instead of kernels: what a verifier does with results of every kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from optiml_core.device.protocol import Array, Built, Contents, Fault, RunOptions, RunResult
from optiml_core.records import Failure, Launch, Variant

# Gets the buffers (its own copies), the launch and the options; changes the buffers; may return faults or a failure.
Behaviour = Callable[[dict[str, Array], Launch, RunOptions], Sequence[Fault] | Failure | None]

DEFAULTS = RunOptions()


class ScriptedDevice:
    """Each variant is known by a word in its text, ``/* behaviour: word */``."""

    name = "emulator"

    def __init__(self, behaviours: Mapping[str, Behaviour], can_widen: bool = True) -> None:
        self.behaviours = behaviours
        self.can_widen = can_widen
        self.runs: list[tuple[str, RunOptions]] = []

    def build(self, variant: Variant, template_arguments: Sequence[str] = (), widened: bool = False) -> Built | Failure:
        if widened and not self.can_widen:
            return Failure("unsupported", "no wider build")
        word = variant.data.decode().split("behaviour: ")[1].split(" ")[0]
        if word not in self.behaviours:
            return Failure("compile-error", f"no behaviour `{word}`", line=3)
        return Built(word, variant, widened=widened)

    def run(
        self, built: Built, launch: Launch, contents: Contents, options: RunOptions = DEFAULTS
    ) -> RunResult | Failure:
        self.runs.append((built.token, options))
        buffers = {name: np.array(array) for name, array in contents.buffers.items()}
        for name, other in contents.aliases.items():
            buffers[name] = buffers[other]
        faults = self.behaviours[built.token](buffers, launch, options)
        if isinstance(faults, Failure):
            return faults
        return RunResult(buffers, tuple(faults or ()), guards_intact=True)

    def close(self) -> None:
        pass
