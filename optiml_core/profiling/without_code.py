"""What can be said of instructions and waiting without a compiler: rough, and only from access counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optiml_core.profiling.machine_code.execution import AccessKey
from optiml_core.profiling.warp_time import L1_CYCLES, SHARED_CYCLES, LineMemory, WarpTime, latencies
from optiml_core.records import AccessCounts
from optiml_core.toolchain import GpuFacts

# An access brings its address, its arithmetic and its share of the loop; the corpus kernels' SASS has 6 to 10.
INSTRUCTIONS_PER_ACCESS = 8.0
# The compilers unroll loops of loads by four by default.
LOADS_IN_FLIGHT = 4.0


def estimated_units(accesses: Sequence[AccessCounts]) -> dict[str, float]:
    """Warp instructions of the launch, from its accesses alone."""
    requests = float(sum(access.requests for access in accesses))
    return {"warp_instructions": INSTRUCTIONS_PER_ACCESS * requests}


def estimated_warp_time(
    accesses: Sequence[AccessCounts],
    memory: Mapping[AccessKey, LineMemory],
    warps: float,
    gpu: GpuFacts,
    skew: tuple[float, float] = (1.0, 1.0),
) -> WarpTime:
    """Waiting of an average warp when a few loads of a line are in flight at a time."""
    total = 0.0
    l2_cycles, dram_cycles = latencies(gpu)
    stalls: dict[int, float] = {}
    for access in accesses:
        if access.kind == "store":
            continue
        each = access.requests / warps
        waits = max(min(each, 1.0), each / LOADS_IN_FLIGHT)
        if access.space == "shared":
            latency = SHARED_CYCLES
        else:
            line = memory.get((access.line, access.kind, "global"))
            l2, dram = (line.l2_share, line.dram_share) if line is not None else (1.0, 1.0)
            latency = (
                L1_CYCLES
                + min(1.0, l2 * LOADS_IN_FLIGHT) * (l2_cycles - L1_CYCLES)
                + min(1.0, dram * LOADS_IN_FLIGHT) * (dram_cycles - l2_cycles)
            )
        total += waits * latency
        stalls[access.line] = stalls.get(access.line, 0.0) + waits * latency
    issued = INSTRUCTIONS_PER_ACCESS * sum(access.requests for access in accesses) / warps
    cycles = total + issued
    return WarpTime(cycles, cycles * skew[0], cycles * skew[1], issued, stalls)
