"""A kernel goes over the same data more than once, in loops one after another."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, in_line
from optiml_core.profiling.findings.places import access_range
from optiml_core.profiling.findings.redundant_global_traffic import touched_bytes
from optiml_core.records import AccessCounts, Finding

KIND = "repeated-pass"
SECTOR = 32.0
WHOLE = 0.7  # of the buffer's touched bytes: an access that moves as much goes over all of it
LEAST_GAIN = 1.05


def find(context: FindingContext) -> tuple[Finding, ...]:
    """Buffers that two or more places of the kernel read in whole, or that are stored in whole and read again."""
    by_buffer: dict[str, list[AccessCounts]] = {}
    for access in context.accesses(lambda a: a.space == "global" and a.kind in ("load", "store") and a.buffer != ""):
        by_buffer.setdefault(access.buffer, []).append(access)
    found = []
    for name, own in by_buffer.items():
        touched = touched_bytes(context, name, own)
        passes: dict[tuple[int, str], AccessCounts] = {}
        for access in own:
            # Contiguous accesses only: a strided one is reported where it stands, with what answers that.
            whole = min(access.sectors, access.ideal_sectors) * SECTOR
            if (
                touched > 0
                and WHOLE * touched <= whole <= touched / WHOLE
                and access.sectors <= 2 * access.ideal_sectors
            ):
                passes[(access.line, access.kind)] = access
        loads = [access for access in passes.values() if access.kind == "load"]
        needed = 0 if len(loads) < len(passes) else 1
        if len(loads) <= needed:
            continue
        again = sorted(loads, key=lambda access: access.line)[needed:]
        lines = {access.line for access in again}
        cut = {
            total: sum(context.line_metric(line, part) for line in lines)
            for total, part in (("dram_bytes", "dram_bytes"), ("l2_read_bytes", "l2_bytes"), ("l1_cycles", "l1_cycles"))
        }
        changes = {total: max(0.0, context.metrics.get(total, 0.0) - saved) for total, saved in cut.items()}
        gain = context.gain_if(changes | context.with_shorter_warps(context.stalls_of(lines)))
        if gain is not None and gain < LEAST_GAIN:
            continue
        stored = "stored and " if needed == 0 else ""
        message = f"`{name}` is {stored}read in {len(loads)} pass{'es' if len(loads) > 1 else ''} over it"
        evidence: dict[str, float | str] = {
            "passes": float(len(passes)),
            "touched_bytes": touched,
            "dram_bytes_of_later_passes": cut["dram_bytes"],
        }
        rewrites = ("recompute-element", "keep-row", "online-softmax")
        worst = again[0]
        finding = context.finding(KIND, access_range(context, worst), message, evidence, gain, rewrites)
        found.append(in_line(finding, worst.line))
    return tuple(found)
