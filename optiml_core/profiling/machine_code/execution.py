"""How often each basic block ran, from what the emulator counted per source line.

The emulator knows how many warps made each access of a line; the machine code says which block
holds that line's memory instructions and how wide they are. Bytes a lane are what both sides agree
on when the compiler unrolled, merged or split accesses, so a block's executions are the line's
bytes over the bytes that the block moves. Blocks without an access get theirs from the loop around
them, loops without any access from the trip counts of the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optiml_core.profiling.machine_code.instructions import MachineCode
from optiml_core.records import AccessCounts

AccessKey = tuple[int, str, str]  # line, kind, space

# Where the source says nothing of a loop either: few, so that it neither vanishes nor dominates.
UNKNOWN_TRIPS = 8.0

# The compiler's line for an access and the emulator's may differ by a line break in an expression. A line further
# than this from every line that was seen to touch memory was not reached.
LINES_APART = 2


def moved_bytes(accesses: Sequence[AccessCounts]) -> dict[AccessKey, float]:
    """Bytes a lane that all warps together moved, by line, kind and space (global and module are one)."""
    moved: dict[AccessKey, float] = {}
    for access in accesses:
        space = "global" if access.space == "module" else access.space
        key = (access.line, access.kind, space)
        moved[key] = moved.get(key, 0.0) + access.requests * access.size
    return moved


def block_executions(
    code: MachineCode,
    accesses: Sequence[AccessCounts],
    warps: float,
    loop_trips: Mapping[int, float] = {},
) -> tuple[float, ...]:
    """Executions of each block, summed over all ``warps`` of the launch.

    ``loop_trips``: iterations a warp of loops of the code (by index), from the source, used where no
    access tells. Blocks that only a call's slow path reaches count 0.
    """
    evidence = _evidence(code, moved_bytes(accesses))
    reached = _reached(code)
    loop_of = [code.loop_of_block(index) for index in range(len(code.blocks))]
    loop_counts = _loop_executions(code, evidence, loop_of, warps, loop_trips)
    counts = []
    for index, block in enumerate(code.blocks):
        loop = loop_of[index]
        around = warps if loop is None else loop_counts[loop]
        if index not in reached:
            counts.append(0.0)
        elif index in evidence:
            # A remainder loop's accesses belong to the main loop; its code can run at most as often.
            counts.append(min(evidence[index], around) if loop is None else evidence[index])
        elif any(code.instructions[i].calls for i in range(block.start, block.end)):
            counts.append(0.0)
        else:
            counts.append(around)
    return tuple(counts)


def _reached(code: MachineCode) -> set[int]:
    seen: set[int] = set()
    pending = [0] if code.blocks else []
    while pending:
        block = pending.pop()
        if block not in seen:
            seen.add(block)
            pending.extend(code.blocks[block].successors)
    return seen


def _evidence(code: MachineCode, moved: Mapping[AccessKey, float]) -> dict[int, float]:
    """Executions by block where accesses tell.

    A line whose accesses lie in several loops (an unrolled loop and its remainders) is given to the loop that moves the
    most an iteration; the others then have zero. Within one loop all blocks that hold the line share its bytes.
    A block whose accesses were never made (the scalar path beside a vector path) has zero too.
    """
    per_block: dict[int, dict[AccessKey, float]] = {}
    per_loop: dict[int | None, dict[AccessKey, float]] = {}
    for index, block in enumerate(code.blocks):
        for instruction in code.instructions[block.start : block.end]:
            if instruction.memory is not None and instruction.space in ("global", "shared"):
                key: AccessKey = (instruction.line, instruction.memory, instruction.space)
                for sizes in (per_block.setdefault(index, {}), per_loop.setdefault(code.loop_of_block(index), {})):
                    sizes[key] = sizes.get(key, 0.0) + instruction.size
    owner: dict[AccessKey, int | None] = {}
    for key in {key for sizes in per_loop.values() for key in sizes}:
        candidates = [loop for loop, sizes in per_loop.items() if key in sizes]
        owner[key] = max(candidates, key=lambda loop: (_depth(code, loop), per_loop[loop][key], -(loop or 0)))
    evidence: dict[int, float] = {}
    seen = {line for line, _, _ in moved}
    for index, sizes in per_block.items():
        loop = code.loop_of_block(index)
        known = [moved[key] / per_loop[loop][key] for key in sizes if key in moved and owner[key] == loop]
        if known:
            # The compiler may drop or hoist an access of a line, never add one: the largest is the surest.
            evidence[index] = max(known)
        elif any(key in moved for key in sizes) or (seen and not any(_is_near(line, seen) for line, _, _ in sizes)):
            evidence[index] = 0.0
    return evidence


def _is_near(line: int, seen: set[int]) -> bool:
    return any(near in seen for near in range(line - LINES_APART, line + LINES_APART + 1))


def _depth(code: MachineCode, loop: int | None) -> int:
    return 0 if loop is None else code.loops[loop].depth


def _loop_executions(
    code: MachineCode,
    evidence: Mapping[int, float],
    loop_of: Sequence[int | None],
    warps: float,
    loop_trips: Mapping[int, float],
) -> list[float]:
    """Iterations of each loop, summed over all warps. Outer loops come first in ``code.loops``."""
    own: list[float | None] = []
    for index in range(len(code.loops)):
        told = [count for block, count in evidence.items() if loop_of[block] == index]
        own.append(max(told) if told else None)
    counts: list[float] = []
    for index, loop in enumerate(code.loops):
        told_count = own[index]
        around = warps if loop.parent is None else counts[loop.parent]
        if told_count is not None:
            counts.append(told_count)
        elif index in loop_trips:
            counts.append(around * loop_trips[index])
        else:
            inner = [own[i] for i, other in enumerate(code.loops) if i != index and other.blocks < loop.blocks]
            known = [count for count in inner if count is not None]
            if known:
                counts.append(max(around, max(known) / UNKNOWN_TRIPS))
            else:
                counts.append(around * UNKNOWN_TRIPS)
    return counts
