"""Neighbouring elements are moved one at a time where one instruction could move up to 16 bytes."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, in_line, without_duplicates
from optiml_core.profiling.findings.places import access_range
from optiml_core.records import AccessCounts, Finding

KIND = "narrow-access"
WIDEST = 16  # bytes a lane
MOST_WASTE = 1.3  # sectors over the ideal: the access has to be contiguous across the warp
LEAST_GAIN = 1.02  # Nearly every kernel has narrow accesses; only those that cost something are worth a word.
LEAST_SHARE = 0.1  # of the launch's requests


def in_loop(context: FindingContext, access: AccessCounts) -> float:
    """1.0 where a warp makes the access several times, so that a wider one shortens the warp; else 0.0."""
    return float(access.requests > 2.0 * context.metrics.get("warps", 1.0))


def wider_launch(context: FindingContext, factor: int) -> dict[str, float]:
    """One element a thread: with wider accesses the launch needs so many blocks less, each waiting as long."""
    metrics = context.metrics
    once = all(a.requests <= 1.01 * metrics.get("warps", 0.0) for a in context.profile.accesses)
    return {name: metrics[name] / factor for name in ("blocks", "warps") if name in metrics} if once else {}


def find(context: FindingContext) -> tuple[Finding, ...]:
    """Contiguous global accesses of at most 8 bytes a lane that make up a tenth of the requests or more."""
    if context.profile.origin == "static":
        return ()  # Whether it costs anything depends on what else the kernel does.
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
                for name, cut in (("warp_instructions", overhead), ("integer_warp_instructions", overhead))
                if name in metrics
            }
            | wider_launch(context, factor)
            | context.with_shorter_warps(in_loop(context, access) * fewer * metrics.get("warp_cycles", 0.0))
        )
        if gain is not None and gain < LEAST_GAIN:
            continue
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
