"""How long one warp of a launch lives, from its machine code, how often blocks ran, and what caches hold.

Each loop body (and the code outside of loops) is scheduled three times: with every load served by L1,
by L2, and by DRAM. A loop waits once per group of loads in flight, so the number of waits follows from
the difference of two schedules; the chance that a group waits for the slower level follows from the
misses. A row of sixteen loads in flight of which one misses costs one trip to DRAM, sixteen dependent
loads of which one misses cost a sixteenth of what all would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from attrs import field, frozen

from optiml_core.profiling.machine_code.dataflow import schedule_dataflow, unroll_factor
from optiml_core.profiling.machine_code.execution import AccessKey
from optiml_core.profiling.machine_code.instructions import Instruction, MachineCode
from optiml_core.profiling.machine_code.schedule import MemoryCost, Schedule, schedule
from optiml_core.profiling.traffic import SiteTraffic
from optiml_core.records import AccessCounts
from optiml_core.toolchain import GpuFacts

Runner = Callable[[Sequence[Instruction], Callable[[Instruction], MemoryCost]], Schedule]

# Cycles, Luo et al. 2024 (the paper of schedule.py): L1 hit 40.7, shared memory 29.0 on H100.
L1_CYCLES = 40.0
SHARED_CYCLES = 29.0
SHARED_ATOMIC_CYCLES = 60.0  # A read, an operation and a write in shared memory; ours.
# Latencies under load against those of a single chain of loads, which the GPU table has.
LOADED_L2 = 1.2
LOADED_DRAM = 1.7
REPEATS = 3  # Iterations after which a loop's schedule repeats itself.


@frozen
class LineMemory:
    """Memory behaviour of the accesses of one line, kind and space, per byte a lane."""

    passes_per_byte: float
    l2_share: float
    dram_share: float
    bytes_per_request: float


@frozen
class WarpTime:
    """``cycles`` of an average warp from start to end, alone on its scheduler; ``issued`` instructions.
    ``block_cycles`` of the longest warp of a block, ``launch_cycles`` of the longest of the launch.

    ``line_stalls``: waiting cycles of an average warp, by line. ``line_issued``: its instructions by line;
    ``line_units``: those of pipes that findings ask for, by line and pipe ("local" for spills, in 4-byte words).
    """

    cycles: float
    block_cycles: float
    launch_cycles: float
    issued: float
    line_stalls: Mapping[int, float] = field(factory=dict)
    line_issued: Mapping[int, float] = field(factory=dict)
    line_units: Mapping[tuple[int, str], float] = field(factory=dict)


def memory_by_line(sites: Sequence[SiteTraffic], accesses: Sequence[AccessCounts]) -> dict[AccessKey, LineMemory]:
    """Merges sites of one line, kind and space, weighted by their requests."""
    sums: dict[AccessKey, list[float]] = {}

    def add(access: AccessCounts, passes: float, l2: float, dram: float) -> None:
        space = "global" if access.space == "module" else access.space
        entry = sums.setdefault((access.line, access.kind, space), [0.0] * 5)
        for position, value in enumerate(
            (access.requests, access.requests * access.size, passes, l2 * access.requests, dram * access.requests)
        ):
            entry[position] += value

    for site in sites:
        add(site.counts, site.lines, site.l2_share, site.dram_share)
    for access in accesses:
        if access.space == "shared":
            add(access, access.wavefronts, 0.0, 0.0)
    return {
        key: LineMemory(passes / moved, l2 / requests, dram / requests, moved / requests)
        for key, (requests, moved, passes, l2, dram) in sums.items()
        if requests > 0 and moved > 0
    }


def warp_time(
    code: MachineCode,
    executions: Sequence[float],
    warps: float,
    memory: Mapping[AccessKey, LineMemory],
    gpu: GpuFacts,
    skew: tuple[float, float] = (1.0, 1.0),
) -> WarpTime:
    """Sums the schedules of all loop bodies and of the straight code, each times its executions a warp.

    ``skew``: requests of the longest warp of a block, and of the launch, over the average warp's. It
    lengthens loops; code outside of loops runs once at most.
    """
    levels = (
        _costs(memory, gpu, slowest=1),
        _costs(memory, gpu, slowest=2),
        _costs(memory, gpu, slowest=3),
    )
    total, issued = 0.0, 0.0
    longest = [0.0, 0.0]
    stalls: dict[int, float] = {}
    lines: dict[int, float] = {}
    units: dict[tuple[int, str], float] = {}
    for blocks, count, loops in _regions(code, executions):
        body = [code.instructions[i] for b in blocks for i in range(code.blocks[b].start, code.blocks[b].end)]
        if not body or count <= 0:
            continue
        each = count / warps
        runner = _runner(code, blocks, body, loops)
        cycles, body_stalls = _region_cycles(body, levels, memory, gpu, runner)
        total += each * cycles
        for position, factor in enumerate(skew):
            longest[position] += (each * factor if loops else min(max(each, 1.0), each * factor)) * cycles
        issued += each * sum(instruction.slots for instruction in body)
        for line, waited in body_stalls.items():
            stalls[line] = stalls.get(line, 0.0) + each * waited
        for instruction in body:
            lines[instruction.line] = lines.get(instruction.line, 0.0) + each * instruction.slots
            if instruction.unit in ("fp64", "barrier"):
                key = (instruction.line, instruction.unit)
                units[key] = units.get(key, 0.0) + each
            elif instruction.space == "local":
                words = (instruction.line, "local")
                units[words] = units.get(words, 0.0) + each * max(1.0, instruction.size / 4)
    return WarpTime(total, longest[0], longest[1], issued, stalls, lines, units)


def _runner(code: MachineCode, blocks: Sequence[int], body: Sequence[Instruction], loops: bool) -> Runner:
    """How a stretch is scheduled: machine code in its order, PTX as a data flow."""
    repeats = REPEATS if loops else 1
    if code.origin == "sass":
        return partial(schedule, repeats=repeats)
    kept = any(code.blocks[block].start in code.not_unrolled for block in blocks)
    return partial(schedule_dataflow, repeats=repeats, unroll=unroll_factor(body) if loops and not kept else 1)


def _regions(code: MachineCode, executions: Sequence[float]) -> list[tuple[tuple[int, ...], float, bool]]:
    """Blocks that run together, how often, and whether they are a loop's body.

    Blocks of one loop that run at least half as often as its busiest one are one stretch; rarer ones
    stand alone.
    """
    members: dict[int | None, list[int]] = {}
    for index in range(len(code.blocks)):
        members.setdefault(code.loop_of_block(index), []).append(index)
    regions: list[tuple[tuple[int, ...], float, bool]] = []
    for loop, blocks in members.items():
        busiest = max(executions[block] for block in blocks)
        together = tuple(block for block in blocks if executions[block] > 0.5 * busiest)
        regions.append((together, busiest, loop is not None))
        regions += [((block,), executions[block], False) for block in blocks if block not in together]
    return regions


def _key(instruction: Instruction) -> AccessKey:
    return (instruction.line, instruction.memory or "load", instruction.space or "global")


def _costs(
    memory: Mapping[AccessKey, LineMemory], gpu: GpuFacts, slowest: int
) -> tuple[int, Mapping[AccessKey, LineMemory], float, float]:
    l2, dram = latencies(gpu)
    return slowest, memory, l2, dram


def latencies(gpu: GpuFacts) -> tuple[float, float]:
    """Cycles until a load that L2, that DRAM serves has arrived."""
    return LOADED_L2 * gpu.l2_latency * gpu.clock, LOADED_DRAM * gpu.dram_latency * gpu.clock


def memory_cost(
    instruction: Instruction, level: tuple[int, Mapping[AccessKey, LineMemory], float, float]
) -> MemoryCost:
    """Latency and passes of one memory instruction when misses go no deeper than ``level[0]`` (1: L1)."""
    slowest, memory, l2_cycles, dram_cycles = level
    line = memory.get(_key(instruction))
    if instruction.space == "constant":
        return MemoryCost(L1_CYCLES)
    ideal = max(1.0, instruction.size * 32 / 128)
    passes = max(1.0, line.passes_per_byte * instruction.size) if line is not None else ideal
    if instruction.space == "shared":
        return MemoryCost(SHARED_ATOMIC_CYCLES if instruction.memory == "atomic" else SHARED_CYCLES, passes)
    if instruction.memory == "atomic" and instruction.space == "global":
        return MemoryCost(l2_cycles, passes)
    if instruction.memory == "store":
        return MemoryCost(1.0, passes)
    latency = L1_CYCLES
    if line is not None and slowest >= 2 and line.l2_share > 0.005:
        latency = l2_cycles
    if line is not None and slowest >= 3 and line.dram_share > 0.005:
        latency = dram_cycles
    return MemoryCost(latency, passes)


def _region_cycles(
    body: Sequence[Instruction],
    levels: Sequence[tuple[int, Mapping[AccessKey, LineMemory], float, float]],
    memory: Mapping[AccessKey, LineMemory],
    gpu: GpuFacts,
    runner: Runner,
) -> tuple[float, dict[int, float]]:
    """Expected cycles of one execution, and the stalls by line."""
    runs = [runner(body, partial(memory_cost, level=level)) for level in levels]
    l2_cycles, dram_cycles = latencies(gpu)
    misses = [0.0, 0.0]
    for instruction in body:
        line = memory.get(_key(instruction))
        if instruction.memory == "load" and instruction.space == "global" and line is not None:
            wider = max(1.0, instruction.size / line.bytes_per_request)
            misses[0] += min(1.0, line.l2_share * wider)
            misses[1] += min(1.0, line.dram_share * wider)
    steps = (max(1.0, l2_cycles - L1_CYCLES), max(1.0, dram_cycles - l2_cycles))
    cycles, weights = runs[0].cycles, [1.0, 0.0, 0.0]
    for deeper in (1, 2):
        added = runs[deeper].cycles - runs[deeper - 1].cycles
        waits = max(1.0, added / steps[deeper - 1])
        chance = min(1.0, misses[deeper - 1] / waits)
        cycles += chance * added
        weights[deeper] = chance
    stalls: dict[int, float] = {}
    # The stalls of the three schedules, mixed by how often each is the true one.
    mixture = (
        1.0 - weights[1],
        weights[1] * (1.0 - min(1.0, weights[2] / max(weights[1], 1e-9))),
        weights[1] * min(1.0, weights[2] / max(weights[1], 1e-9)),
    )
    for run, weight in zip(runs, mixture, strict=True):
        for line_number, waited in run.line_stalls.items():
            stalls[line_number] = stalls.get(line_number, 0.0) + weight * waited
    return cycles, stalls
