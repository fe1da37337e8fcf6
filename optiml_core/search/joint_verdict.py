"""Two verdicts on one candidate: the emulator's, which sees every access, and the GPU's, which runs real code."""

from __future__ import annotations

from typing import Literal

from attrs import evolve

from optiml_core.records import Check, Variant, Verdict
from optiml_core.verification import Verifier

NO_EMULATOR = "races, barriers and initialisation: the emulator cannot run this kernel"


class JointVerifier:
    """Both devices must agree. Where the emulator cannot run even the original, the GPU alone decides and the
    verdict says what was therefore not checked."""

    def __init__(self, emulator: Verifier | None, gpu: Verifier) -> None:
        self._emulator = emulator
        self._gpu = gpu
        self._emulator_runs: bool | None = None if emulator is not None else False

    def verify(self, candidate: Variant, level: Literal["quick", "full"] = "full") -> Verdict:
        first = self._on_emulator(candidate, level)
        if first is not None and first.equivalent is not True:
            return first
        second = self._gpu.verify(candidate, level)
        if first is None:
            return evolve(second, not_checked=(*second.not_checked, NO_EMULATOR))
        return join(first, second)

    def _on_emulator(self, candidate: Variant, level: Literal["quick", "full"]) -> Verdict | None:
        if self._emulator is None:
            return None
        if self._emulator_runs is None:
            self._emulator_runs = self._emulator.verify(self._emulator.original, "quick").equivalent is True
        return self._emulator.verify(candidate, level) if self._emulator_runs else None


def join(emulator: Verdict, gpu: Verdict) -> Verdict:
    """The GPU's verdict with the emulator's checks before it; the emulator has passed already."""
    checks = [Check(f"emulator: {check.name}", check.result, check.detail) for check in emulator.checks]
    checks += [Check(f"GPU: {check.name}", check.result, check.detail) for check in gpu.checks]
    return Verdict(
        gpu.equivalent,
        gpu.level,
        tuple(checks),
        tuple(dict.fromkeys((*gpu.not_checked, *emulator.not_checked))),
        gpu.reason,
        tuple(dict.fromkeys((*emulator.dropped_sizes, *gpu.dropped_sizes))),
        emulator.seconds + gpu.seconds,
    )
