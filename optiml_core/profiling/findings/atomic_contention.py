"""Many threads update few addresses, and the hardware takes them one after the other."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, in_line, without_duplicates
from optiml_core.profiling.findings.places import access_range
from optiml_core.profiling.traffic import SECTOR
from optiml_core.records import Finding

KIND = "atomic-contention"
LEAST_SAME = 0.25  # of the lanes meet a taken address
LEAST_TIME = 0.2  # of the time is what the hottest address needs


def find(context: FindingContext) -> tuple[Finding, ...]:
    """Atomics whose lanes collide within a warp, or whose hottest address takes a fifth of the time."""
    found = []
    metrics = context.metrics
    waiting = context.share_of_time("atomic")
    for access in context.accesses(lambda a: a.kind == "atomic" and a.lanes > 0):
        same = access.same_address / access.lanes
        is_global = access.space != "shared"
        if same < LEAST_SAME and not (is_global and waiting >= LEAST_TIME):
            continue
        hottest = metrics.get("hottest_address_atomics", 0.0)
        if is_global:
            # As if each block added up its own and then updated every touched sector once.
            sectors = metrics.get("atomic_sectors", 0.0)
            kept = metrics.get("blocks", 1.0) * metrics.get("atomic_bytes", 0.0) / SECTOR
            changes = {"atomic_sectors": min(sectors, kept)}
            message = f"{access.lanes:,} atomic updates go to few addresses, about {hottest:,.0f} to the hottest"
            rewrites = ("privatize-atomics", "shuffle-reduction")
        else:
            saved = float(access.wavefronts - access.ideal_wavefronts)
            changes = {"shared_cycles": max(0.0, metrics.get("shared_cycles", 0.0) - saved)}
            message = f"{100 * same:.0f} % of the lanes of a shared atomic meet an address that is taken"
            rewrites = ("shuffle-reduction", "privatize-atomics")
        evidence: dict[str, float | str] = {
            "atomic_updates": float(access.lanes),
            "same_address_in_warp": same,
            "hottest_address_updates": hottest if is_global else float(access.max_degree),
        }
        gain = context.gain_if(changes)
        found.append(
            in_line(
                context.finding(KIND, access_range(context, access), message, evidence, gain, rewrites), access.line
            )
        )
    return without_duplicates(found)
