"""Neighbouring elements are moved one at a time where one instruction could move up to 16 bytes."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, in_line, without_duplicates
from optiml_core.profiling.findings.places import access_range
from optiml_core.records import Finding

KIND = "narrow-access"
WIDEST = 16  # bytes a lane
MOST_WASTE = 1.3  # sectors over the ideal: the access has to be contiguous across the warp
LEAST_SHARE = 0.1  # of the launch's requests


def find(context: FindingContext) -> tuple[Finding, ...]:
    """Contiguous global accesses of at most 8 bytes a lane that make up a tenth of the requests or more."""
    everything = max(1.0, context.metrics.get("global_requests", 0.0))
    found = []
    for access in context.accesses(lambda a: a.space == "global" and a.kind != "atomic" and 0 < a.size < WIDEST):
        lanes = access.lanes / access.requests
        contiguous = access.bytes / access.requests >= 0.5 * 32 * access.sectors / access.requests and lanes > 8
        if not contiguous or access.sectors > MOST_WASTE * access.ideal_sectors:
            continue
        if access.requests < LEAST_SHARE * everything:
            continue
        factor = WIDEST // access.size
        metrics = context.metrics
        share = access.requests / everything
        fewer = share * (1.0 - 1.0 / factor)
        # Per byte: address arithmetic, guards and the request itself are paid once instead of `factor` times.
        overhead = 0.5 * fewer
        gain = context.gain_if(
            {
                name: metrics[name] * (1.0 - cut)
                for name, cut in (
                    ("warp_instructions", overhead), ("integer_warp_instructions", overhead), ("warp_cycles", fewer),
                )
                if name in metrics
            }
        )  # fmt: skip
        name = f" of `{access.buffer}`" if access.buffer else ""
        message = f"{access.kind}{name} moves {access.size} bytes a lane; {WIDEST} fit into one instruction"
        evidence: dict[str, float | str] = {
            "bytes_per_lane": float(access.size),
            "requests": float(access.requests),
            "share_of_requests": share,
        }
        rewrites = ("vectorize-access", "coarsen-grid-stride")
        found.append(
            in_line(
                context.finding(KIND, access_range(context, access), message, evidence, gain, rewrites), access.line
            )
        )
    return without_duplicates(found)
