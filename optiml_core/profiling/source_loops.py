"""Iterations of the loops in machine code, from the heads of the loops in the source."""

from __future__ import annotations

from collections import Counter

from optiml_core.profiling.machine_code.instructions import MachineCode
from optiml_core.records import Failure, Kernel, Launch, ScalarArgument
from optiml_core.source import Loop, TranslationUnit, loops
from optiml_core.workload.expression import evaluate, parse_expression

# Instructions of a loop that unrolling does not multiply: count, compare, branch.
LOOP_OVERHEAD = 3


def loop_trips(code: MachineCode, unit: TranslationUnit, kernel: Kernel, launch: Launch) -> dict[int, float]:
    """Iterations of one run of each machine loop (by its index in ``code.loops``) that a source loop's head tells.

    Thread and block indices count as 0: the head of a loop that starts at one of them says how often the first
    thread runs it. Of several machine loops made of one source loop the longest body is the unrolled one; it runs as
    many times less as it is longer, and the remainders count 0.
    """
    known = loops(unit, kernel)
    of_source: dict[int, list[tuple[int, int]]] = {}
    for index, loop in enumerate(code.loops):
        inner = {block for other in code.loops if other.blocks < loop.blocks for block in other.blocks}
        own = [
            code.instructions[i].line
            for block in loop.blocks - inner
            for i in range(code.blocks[block].start, code.blocks[block].end)
            if code.instructions[i].slots
        ]
        place = _source_loop(own, known)
        if place is not None:
            of_source.setdefault(place, []).append((len(own), index))
    names = launch_names(launch)
    trips: dict[int, float] = {}
    for place, machine in of_source.items():
        count = trip_count(known[place], names)
        if count is None:
            continue
        longest, main = max(machine)
        shortest = min(machine)[0]
        for _, index in machine:
            trips[index] = 0.0
        unrolled = (longest - LOOP_OVERHEAD) / max(1, shortest - LOOP_OVERHEAD)
        trips[main] = count / max(1.0, round(unrolled)) if len(machine) > 1 else count
    return trips


def launch_names(launch: Launch) -> dict[str, int | float]:
    """Numbers that a loop's head may name: scalars of the launch, block and grid sizes, indices as 0."""
    names: dict[str, int | float] = dict(launch.names)
    for argument in launch.arguments:
        if isinstance(argument, ScalarArgument) and isinstance(argument.value, int | float):
            names[argument.name] = argument.value
    for axis, position in (("x", 0), ("y", 1), ("z", 2)):
        names[f"blockDim.{axis}"] = launch.block[position]
        names[f"gridDim.{axis}"] = launch.grid[position]
        names[f"threadIdx.{axis}"] = 0
        names[f"blockIdx.{axis}"] = 0
    names["warpSize"] = 32
    return names


def trip_count(loop: Loop, names: dict[str, int | float]) -> float | None:
    """The iterations that the loop's head says under ``names``, None where it does not."""
    if loop.trip_count_value is not None:
        return float(loop.trip_count_value)
    if loop.trip_count is None:
        return None
    expression = parse_expression(loop.trip_count)
    if isinstance(expression, Failure):
        return None
    value = evaluate(expression, names)
    return None if isinstance(value, Failure) else max(0.0, float(value))


def _source_loop(lines: list[int], known: tuple[Loop, ...]) -> int | None:
    """The innermost source loop that holds most of the lines."""
    votes: Counter[int] = Counter()
    for line in lines:
        holding = [index for index, loop in enumerate(known) if loop.range.start_line <= line <= loop.range.end_line]
        if holding:
            votes[max(holding, key=lambda index: known[index].depth)] += 1
    if not votes:
        return None
    place, count = votes.most_common(1)[0]
    return place if 2 * count > sum(1 for line in lines if line) else None
