"""The composite reward: runtime, hardware proxies, guardrails against regression.

The paper names the three parts; the form and the weights are ours:

    R = a * ln(t_original / t) + sum_i b_i * clip(ln(p_i,original / p_i), -1, 1) - g * regression

with a far above the sum of the b_i, so that proxies order variants of equal time and never outvote time.
A variant that fails its gate gets ``FAILED`` and no proxy credit at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import field, frozen

from optiml_core.records import Measurement, Profile

FAILED = -1.0
REFUSED = -0.25  # a rewrite's precondition said no: cheap, and no evidence against its neighbours


@frozen
class RewardWeights:
    """``proxies``: metric name -> weight; a metric of which more is better has a negative sign in
    ``higher_is_better``. A metric absent from either profile counts nothing."""

    time: float = 1.0
    proxies: Mapping[str, float] = field(
        factory=lambda: {
            "dram_bytes": 0.03,
            "warp_instructions": 0.02,
            "global_sectors": 0.02,
            "shared_wavefronts": 0.01,
            "achieved_occupancy": 0.01,
        }
    )
    higher_is_better: frozenset[str] = frozenset({"achieved_occupancy"})
    regression: float = 0.5


def reward(
    measurement: Measurement,
    original: Profile | None,
    profile: Profile | None,
    regression: float = 0.0,
    weights: RewardWeights | None = None,
) -> float:
    """The reward of a verified variant; 0 for the original itself.

    ``regression`` is how much slower the variant is on the workload's other launches, as a log ratio of at least 0.
    """
    weights = weights or RewardWeights()
    value = weights.time * math.log(max(measurement.speedup, 1e-9))
    if original is not None and profile is not None:
        for name, weight in weights.proxies.items():
            before, after = original.metrics.get(name), profile.metrics.get(name)
            if before is None or after is None or before <= 0 or after <= 0:
                continue
            change = max(-1.0, min(1.0, math.log(before / after)))
            value += weight * (-change if name in weights.higher_is_better else change)
    return value - weights.regression * max(0.0, regression)
