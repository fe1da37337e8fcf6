"""Lanes of a warp touch more sectors than their bytes need."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, in_line, percent, without_duplicates
from optiml_core.profiling.findings.places import access_range
from optiml_core.profiling.traffic import SECTOR, lines_of
from optiml_core.records import AccessCounts, Finding

KIND = "uncoalesced-access"
LEAST_WASTED_BYTES = 8.0
LEAST_SHARE = 0.02  # of all sectors of the launch


def find(context: FindingContext) -> tuple[Finding, ...]:
    """One finding for each global load or store that wastes at least 8 of 32 bytes of its sectors."""
    everything = max(1.0, context.metrics.get("global_sectors", 0.0))
    found = []
    for access in context.accesses(lambda a: a.space == "global" and a.kind != "atomic" and a.sectors > 0):
        useful = SECTOR * min(1.0, access.ideal_sectors / access.sectors)
        wasted = SECTOR - useful
        if wasted < LEAST_WASTED_BYTES or access.sectors < LEAST_SHARE * everything:
            continue
        gain = context.gain_if(mended(context, access))
        name = f" of `{access.buffer}`" if access.buffer else ""
        message = f"{access.kind}{name}: {wasted:.0f} of {SECTOR} bytes per sector wasted"
        evidence: dict[str, float | str] = {
            "sectors_per_request": access.sectors / access.requests,
            "ideal_sectors_per_request": access.ideal_sectors / access.requests,
            "wasted_bytes_per_sector": wasted,
            "share_of_sectors": percent(access.sectors / everything),
        }
        rewrites = ("swap-thread-roles", "shared-tile-transpose", "parallel-row", "launch-shape")
        finding = context.finding(KIND, access_range(context, access), message, evidence, gain, rewrites)
        found.append(in_line(finding, access.line))
    return without_duplicates(found)


def mended(context: FindingContext, access: AccessCounts) -> dict[str, float]:
    """The profile's metrics if this access touched only the sectors that its bytes need."""
    ratio = access.ideal_sectors / access.sectors
    metrics = context.metrics
    saved_lines = lines_of(access) - max(float(access.requests), access.ideal_sectors / 4)
    total_lines = max(1.0, metrics.get("l1_cycles", 0.0))
    changes = {"l1_cycles": max(0.0, total_lines - saved_lines)}
    if access.kind == "store":
        saved_bytes = float(access.sectors - access.ideal_sectors) * SECTOR
        changes["l2_write_bytes"] = max(0.0, metrics.get("l2_write_bytes", 0.0) - saved_bytes)
        changes["l2_write_lines"] = max(0.0, metrics.get("l2_write_lines", 0.0) - saved_lines)
    else:
        # What L1 kept of a sector until it was used is no traffic to save.
        saved_bytes = max(0.0, context.line_metric(access.line, "l2_bytes") - access.ideal_sectors * SECTOR)
        changes["l2_read_bytes"] = max(0.0, metrics.get("l2_read_bytes", 0.0) - saved_bytes)
    # A warp that walks along its lanes' rows waits as often as it has elements; one that reads across them
    # waits as often as it has sectors.
    stalls = context.stalls_of([access.line]) if access.kind == "load" else 0.0
    return changes | context.with_shorter_warps(stalls * (1.0 - max(ratio, 1 / 8)))
