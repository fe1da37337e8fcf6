"""Numbers for people."""

from __future__ import annotations

import math


def time_text(seconds: float) -> str:
    """Three digits with a fitting unit: ``812 ns``, ``41.3 us``, ``1.40 ms``."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:#.3g}".rstrip(".") + f" {unit}"
    return f"{seconds / 1e-9:#.3g}".rstrip(".") + " ns"


def metric_text(value: float | None) -> str:
    """Whole numbers grouped, others with four digits; a dash for what was not measured."""
    if value is None or not math.isfinite(value):
        return "-"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}"


def resource_name(bound_by: str) -> str:
    """A roofline's ``bound_by`` as people write it: ``L2``, ``DRAM``; the others are words already."""
    names = {"l1": "L1", "l2": "L2", "dram": "DRAM", "shared": "shared memory", "issue": "issue slots"}
    return names.get(bound_by, bound_by)
