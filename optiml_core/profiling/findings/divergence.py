"""Lanes of a warp go different ways, so that instructions run for a part of them."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, in_line, percent, without_duplicates
from optiml_core.profiling.findings.places import access_range
from optiml_core.records import Finding

KIND = "divergence"
MOST_LANES = 0.75  # of the lanes a warp has
LEAST_SHARE = 0.05  # of the launch's requests


def find(context: FindingContext) -> tuple[Finding, ...]:
    """Accesses made by few lanes of their warps, where they are a part of the launch worth speaking of."""
    launch = context.launch
    if launch is None:
        return ()
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    full = threads / -(-threads // 32)
    everything = float(sum(a.requests for a in context.profile.accesses)) or 1.0
    found = []
    for access in context.accesses(lambda a: a.requests > 0):
        lanes = access.lanes / access.requests
        if lanes > MOST_LANES * full or access.requests < LEAST_SHARE * everything:
            continue
        metrics = context.metrics
        idle = 1.0 - lanes / full
        here = access.requests / everything
        gain = context.gain_if(
            {
                name: metrics[name] * (1.0 - idle * here)
                for name in ("warp_instructions", "integer_warp_instructions", "fp32_warp_instructions")
                if name in metrics
            }
            | context.with_shorter_warps(idle * here * metrics.get("warp_cycles", 0.0))
        )
        message = f"only {lanes:.1f} of {full:.0f} lanes a warp take part"
        evidence: dict[str, float | str] = {
            "lanes_per_request": lanes,
            "lanes_per_warp": full,
            "share_of_requests": percent(here),
        }
        rewrites = ("shuffle-reduction", "swap-thread-roles", "launch-shape")
        found.append(
            in_line(
                context.finding(KIND, access_range(context, access), message, evidence, gain, rewrites), access.line
            )
        )
    return without_duplicates(found)
