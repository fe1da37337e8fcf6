"""Guardrails: what a change must clear before it counts as a gain."""

from __future__ import annotations

import math

from optiml_core.records import Measurement

# A predicted gain below this is inside the model's own error; it is not offered.
PREDICTION_MARGIN = 1.03


def is_better(measurement: Measurement) -> bool:
    """Whether a variant counts as faster than the original.

    A measured gain must hold at the lower bound of its 95 % interval and be conclusive; a predicted one
    must exceed ``PREDICTION_MARGIN``.
    """
    if measurement.kind == "measured":
        return not measurement.inconclusive and measurement.low > 1.0
    return measurement.speedup >= PREDICTION_MARGIN


def is_clearly_faster(measurement: Measurement, than: Measurement) -> bool:
    """Whether ``measurement`` beats another variant's by more than the noise of both."""
    if measurement.kind == "measured":
        return measurement.low > than.speedup or (
            measurement.speedup > than.speedup and measurement.low > than.low and measurement.time < than.time * 0.995
        )
    return measurement.time < than.time * 0.995


def regression(others: tuple[Measurement, ...]) -> float:
    """How much slower the variant is on the workload's other launches: the largest log ratio, at least 0."""
    return max((math.log(1 / other.speedup) for other in others if other.speedup < 1.0), default=0.0)
