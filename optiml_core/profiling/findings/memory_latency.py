"""A loop waits for its loads one after another instead of having several under way."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, in_line, percent, without_duplicates
from optiml_core.profiling.findings.places import access_range
from optiml_core.records import Finding

KIND = "memory-latency"
LEAST_SHARE = 0.25  # of the average warp's life
LEAST_ROUNDS = 4.0  # loads a warp makes at the place: below it is no loop
LEAST_GAIN = 1.05
AT_ONCE = 4.0  # loads under way that a rewrite reaches


def find(context: FindingContext) -> tuple[Finding, ...]:
    """Global loads in loops whose waiting fills a quarter of a warp's life, where the launch is bound by latency."""
    warps = max(1.0, context.metrics.get("warps", 1.0))
    life = context.metrics.get("warp_cycles", 0.0)
    if life <= 0 or context.share_of_time("latency") < 0.5:
        return ()
    found = []
    for access in context.accesses(lambda a: a.space == "global" and a.kind == "load"):
        waited = context.stalls_of([access.line])
        if access.requests < LEAST_ROUNDS * warps or waited < LEAST_SHARE * life:
            continue
        gain = context.gain_if(context.with_shorter_warps(waited * (1.0 - 1.0 / AT_ONCE)))
        if gain is not None and gain < LEAST_GAIN:
            continue
        name = f" of `{access.buffer}`" if access.buffer else ""
        message = f"warps spend {percent(waited / life)} of their time waiting for loads{name}"
        evidence: dict[str, float | str] = {
            "stall_cycles_per_warp": waited,
            "warp_cycles": life,
            "loads_per_warp": access.requests / warps,
        }
        rewrites = ("load-ahead", "vectorize-access", "unroll-loop")
        finding = context.finding(KIND, access_range(context, access), message, evidence, gain, rewrites)
        found.append(in_line(finding, access.line))
    return without_duplicates(found)
