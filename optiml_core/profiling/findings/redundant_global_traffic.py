"""The same bytes travel several times between a multiprocessor and memory."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, in_line, without_duplicates
from optiml_core.profiling.findings.places import access_range
from optiml_core.profiling.traffic import SECTOR
from optiml_core.records import AccessCounts, BufferArgument, Finding

KIND = "redundant-global-traffic"
LEAST_REUSE = 4.0
LEAST_SHARE = 0.1  # of the launch's sectors


def find(context: FindingContext) -> tuple[Finding, ...]:
    """Buffers whose bytes are requested at least four times over, at the access that asks most.

    A broadcast counts once: what is compared are the sectors that requests need, not lanes.
    """
    everything = max(1.0, context.metrics.get("global_sectors", 0.0))
    by_buffer: dict[str, list[AccessCounts]] = {}
    for access in context.accesses(lambda a: a.space == "global" and a.kind != "atomic" and a.buffer != ""):
        by_buffer.setdefault(access.buffer, []).append(access)
    found = []
    for name, accesses in by_buffer.items():
        touched = touched_bytes(context, name, accesses)
        # Whole sectors that lanes needed, so that a stride is not reported here as well.
        needed = float(sum(min(a.sectors, a.ideal_sectors) for a in accesses)) * SECTOR
        requested = float(sum(a.sectors for a in accesses))
        if touched <= 0 or needed / touched < LEAST_REUSE or requested < LEAST_SHARE * everything:
            continue
        worst = max(accesses, key=lambda a: a.sectors)
        times = needed / touched
        kept_in_register = any(a.kind == "store" for a in accesses) and any(a.kind == "load" for a in accesses)
        metrics = context.metrics
        fewer = 1.0 - LEAST_REUSE / times
        own_lines = float(sum(a.lines or a.requests for a in accesses))
        own_l2 = sum(context.line_metric(line, "l2_bytes") for line in {a.line for a in accesses})
        own_stalls = context.stalls_of(a.line for a in accesses)
        gain = context.gain_if(
            {
                "l1_cycles": max(0.0, metrics.get("l1_cycles", 0.0) - fewer * own_lines),
                "l2_read_bytes": max(0.0, metrics.get("l2_read_bytes", 0.0) - fewer * own_l2),
            }
            | context.with_shorter_warps(fewer * own_stalls)
        )
        message = f"each byte of `{name}` is requested {times:.0f} times"
        evidence: dict[str, float | str] = {
            "requested_bytes": needed,
            "touched_bytes": touched,
            "times": times,
            "share_of_sectors": requested / everything,
        }
        first = ("register-accumulator",) if kept_in_register else ()
        rewrites = (*first, "restrict-readonly", "register-tile-matmul", "unroll-and-jam", "shared-tile-transpose")
        found.append(
            in_line(context.finding(KIND, access_range(context, worst), message, evidence, gain, rewrites), worst.line)
        )
    return without_duplicates(found)


def touched_bytes(context: FindingContext, name: str, accesses: list[AccessCounts]) -> float:
    """Distinct bytes of a buffer that the launch touches: no more than the buffer has."""
    cold = SECTOR * float(sum(a.sector_reuse[-1] if a.sector_reuse else a.ideal_sectors for a in accesses))
    if context.launch is not None:
        for argument in (*context.launch.arguments, *context.launch.globals):
            if isinstance(argument, BufferArgument) and argument.name == name:
                return min(cold, float(argument.length * argument.element.size))
    return cold
