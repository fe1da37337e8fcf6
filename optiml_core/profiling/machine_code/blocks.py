"""Basic blocks and natural loops of a list of instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optiml_core.profiling.machine_code.instructions import CodeBlock, CodeLoop, Instruction


def basic_blocks(instructions: Sequence[Instruction], labels: Mapping[str, int]) -> tuple[CodeBlock, ...]:
    """Cuts at labels that are branched to and after branches; edges in the order: branch, fall-through.

    ``labels`` maps a label to the index of the instruction after it. A call is not an edge: its
    slow path is outside the kernel's own flow.
    """
    count = len(instructions)
    starts = {0}
    for index, instruction in enumerate(instructions):
        if instruction.target is not None and not instruction.calls:
            starts.add(labels.get(instruction.target, count))
        if (instruction.target is not None and not instruction.calls) or instruction.ends:
            starts.add(index + 1)
    cuts = sorted(start for start in starts if start < count)
    number = {start: position for position, start in enumerate(cuts)}
    blocks = []
    for position, start in enumerate(cuts):
        end = cuts[position + 1] if position + 1 < len(cuts) else count
        last = instructions[end - 1]
        successors = []
        branches = last.target is not None and not last.calls
        if branches and last.target is not None and (goal := labels.get(last.target, count)) in number:
            successors.append(number[goal])
        falls = not last.ends and (not branches or last.guarded)
        if falls and position + 1 < len(cuts):
            successors.append(position + 1)
        blocks.append(CodeBlock(start, end, tuple(successors)))
    return tuple(blocks)


def natural_loops(blocks: Sequence[CodeBlock]) -> tuple[CodeLoop, ...]:
    """Loops by their back edges to an earlier or the same block, outermost first.

    A compiler lays loops out so that the header comes first; an edge backwards to a block that does
    not reach its source is no loop. A block that only branches to itself with nothing else is the
    padding after the kernel, not a loop of it.
    """
    predecessors: list[list[int]] = [[] for _ in blocks]
    for index, block in enumerate(blocks):
        for successor in block.successors:
            predecessors[successor].append(index)
    reachable = _reachable(blocks, 0)
    bodies: dict[int, set[int]] = {}
    for tail, block in enumerate(blocks):
        for header in block.successors:
            if header > tail or tail not in reachable:
                continue
            body = {header, tail}
            pending = [tail] if tail != header else []
            while pending:
                for before in predecessors[pending.pop()]:
                    if before not in body and before in reachable:
                        body.add(before)
                        pending.append(before)
            if min(body) >= header:
                bodies.setdefault(header, set()).update(body)
    ordered = sorted(bodies.items(), key=lambda item: (-len(item[1]), item[0]))
    loops: list[CodeLoop] = []
    for header, body in ordered:
        parent = None
        for index, outer in enumerate(loops):
            inside = header != outer.header and body <= outer.blocks
            if inside and (parent is None or outer.depth > loops[parent].depth):
                parent = index
        loops.append(CodeLoop(header, frozenset(body), parent, 1 if parent is None else loops[parent].depth + 1))
    return tuple(loops)


def _reachable(blocks: Sequence[CodeBlock], start: int) -> set[int]:
    seen: set[int] = set()
    pending = [start] if blocks else []
    while pending:
        block = pending.pop()
        if block not in seen:
            seen.add(block)
            pending.extend(blocks[block].successors)
    return seen
