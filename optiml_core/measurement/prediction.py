"""Predicted times and predicted speedups, with intervals that say how far the model can be trusted."""

from __future__ import annotations

import math

from optiml_core.profiling.time_model import Prediction, predict_from_metrics
from optiml_core.records import Failure, Measurement, Profile
from optiml_core.toolchain import GpuFacts

# Deviation of ln(predicted / measured) of speedups, from the pairs of benchmarks/results/prediction.md: the root mean
# square is 0.11 for pairs within 5 % of each other and 0.25 beyond a factor of 7. These constants hold 95 % of them.
LARGEST_DEVIATION = 0.45
SMALLEST_DEVIATION = 0.09
DEVIATION_PER_CHANGE = 0.18


def predict(profile: Profile, gpu: GpuFacts) -> Prediction | Failure:
    """The time of a profiled launch on ``gpu``: the largest of the times that its resources need, in seconds.

    A profile without counts (a static one) is a Failure ``unsupported``.
    """
    if "blocks" not in profile.metrics:
        return Failure("unsupported", "a profile without counts predicts no time")
    return predict_from_metrics(profile, gpu)


def speedup_prediction(original: Profile, candidate: Profile, gpu: GpuFacts) -> Measurement | Failure:
    """How much faster the candidate is predicted to be; the interval covers about 95 % of such predictions."""
    before, after = predict(original, gpu), predict(candidate, gpu)
    if isinstance(before, Failure):
        return before
    if isinstance(after, Failure):
        return after
    speedup = before.time / after.time
    change = abs(math.log(speedup))
    deviation = min(LARGEST_DEVIATION, SMALLEST_DEVIATION + DEVIATION_PER_CHANGE * change)
    reach = math.exp(1.96 * deviation)
    return Measurement(
        kind="predicted",
        target=gpu.name,
        time=after.time,
        original_time=before.time,
        speedup=speedup,
        low=speedup / reach,
        high=speedup * reach,
        cache="modelled",
        notes=(f"predicted for {gpu.name} by a model, not measured",),
    )
