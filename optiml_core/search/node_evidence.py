"""A node's measurement in words, and what changed between two nodes in numbers."""

from __future__ import annotations

from collections.abc import Mapping

from optiml_core.records import Measurement
from optiml_core.search.records import Outcome

LEAST_STALL_CHANGE = 0.05


def describe(measurement: Measurement) -> str:
    """``2.10x predicted for NVIDIA H100`` or ``1.82x measured (1.79 to 1.85) on NVIDIA H200``."""
    if measurement.kind == "predicted":
        return f"{measurement.speedup:.2f}x predicted for {measurement.target}"
    interval = f"({measurement.low:.2f} to {measurement.high:.2f})"
    doubt = ", inconclusive" if measurement.inconclusive else ""
    return f"{measurement.speedup:.2f}x measured {interval} on {measurement.target}{doubt}"


def _number(value: float) -> str:
    """For people: ``4,194,304``, ``376.6``, ``0.25``."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def evidence_of(before: Outcome, after: Outcome) -> Mapping[str, float | str]:
    """What changed between two nodes, in numbers: for the trajectory."""
    evidence: dict[str, float | str] = {}
    # Counters of the hardware where both have them; never one node's against another's emulated ones.
    pairs = ((before.counters, after.counters), (before.profile, after.profile))
    old_profile, new_profile = next((pair for pair in pairs if None not in pair), (None, None))
    if old_profile is not None and new_profile is not None:
        for name, old in old_profile.metrics.items():
            new = new_profile.metrics.get(name)
            # Samples of warps are shares: a small one that doubled says nothing.
            if new is None or (name.startswith("stall_share_") and abs(new - old) < LEAST_STALL_CHANGE):
                continue
            if old > 0 and abs(new - old) > 0.02 * old:
                evidence[name] = f"{_number(old)} -> {_number(new)}"
    if before.roofline and after.roofline and before.roofline.bound_by != after.roofline.bound_by:
        evidence["bound_by"] = f"{before.roofline.bound_by} -> {after.roofline.bound_by}"
    return evidence
