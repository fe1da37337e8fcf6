"""Warps spend their time waiting for each other."""

from __future__ import annotations

import re

from optiml_core.profiling.findings.context import FindingContext, line_range
from optiml_core.records import Finding

KIND = "barrier-bound"
BARRIER_CYCLES = 30.0  # Arrival, release and the spread of a block's warps; ours.
LEAST_SHARE = 0.1  # of a warp's time
_BARRIER = re.compile(rb"\b(__syncthreads\w*|\w+\s*\.\s*sync\s*\(|cg::sync|__syncwarp)\b")


def find(context: FindingContext) -> tuple[Finding, ...]:
    """A finding at the first barrier when barriers take a tenth of a warp's time or more."""
    metrics = context.metrics
    barriers, cycles = metrics.get("barriers", 0.0), metrics.get("warp_cycles", 0.0)
    blocks = metrics.get("blocks", 0.0)
    if barriers <= 0 or cycles <= 0 or blocks <= 0:
        return ()
    per_block = barriers / blocks
    # The more warps a block has, the later the last one arrives.
    warps = metrics.get("warps", 0.0) / blocks
    each = BARRIER_CYCLES + 4.0 * max(0.0, warps - 1.0)
    share = min(1.0, per_block * each / cycles)
    if warps <= 1 or share < LEAST_SHARE:
        return ()
    body = context.kernel.body_range
    match = _BARRIER.search(context.unit.source.data, body.start_byte, body.end_byte)
    if match is None:
        return ()
    place = context.unit.source.range(match.start(), match.end())
    gain = context.gain_if(context.with_shorter_warps(0.8 * share * cycles))
    message = f"{per_block:.0f} barriers a block take about {100 * share:.0f} % of a warp's time"
    evidence: dict[str, float | str] = {
        "barriers_per_block": per_block,
        "share_of_warp_time": share,
        "warps_per_block": warps,
    }
    where = line_range(context, place.start_line) if place.start_byte == place.end_byte else place
    return (context.finding(KIND, where, message, evidence, gain, ("shuffle-reduction", "launch-shape")),)
