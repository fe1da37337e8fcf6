"""How long one warp takes for code that has not been scheduled yet (PTX).

The compiler's last step moves loads as far up as dependences, stores that may alias, branches and
barriers allow, and unrolls short loops. So an instruction goes as soon as its operands are there and
no such fence lies between; an iteration ends when its last instruction has gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optiml_core.profiling.machine_code.instructions import Instruction
from optiml_core.profiling.machine_code.schedule import FENCE_CYCLES, UNIT_LATENCY, MemoryCost, Schedule

# The last step unrolls the innermost loop by four once more if its body is short.
UNROLLED_SLOTS = 32
UNROLL = 4


def unroll_factor(instructions: Sequence[Instruction]) -> int:
    """By how much the last step of the compiler unrolls a loop with this body."""
    slots = sum(instruction.slots for instruction in instructions)
    branches = sum(instruction.target is not None for instruction in instructions)
    fixed = any(instruction.calls or instruction.unit == "barrier" for instruction in instructions)
    # What the step before could not unroll (a counter of 64 bits, say), the last step does not either.
    unrolled_before = sum(instruction.memory == "load" for instruction in instructions) >= UNROLL
    if branches != 1 or not unrolled_before or fixed or slots > UNROLLED_SLOTS:
        return 1
    return UNROLL if _counts_by_number(instructions) else 1


def _counts_by_number(instructions: Sequence[Instruction]) -> bool:
    """Whether what the loop's last test compares grows by a number: an addition that reads one register.

    A counter that grows by a register (``c += blockDim.x``) is unrolled by the step before alone.
    """
    test = next((one for one in reversed(instructions) if one.target is not None), None)
    writers = {register: one for one in instructions for register in one.writes}
    compared = [writers[register] for register in (test.reads if test is not None else ()) if register in writers]
    counters = [writers[register] for one in compared for register in one.reads if register in writers]
    return not any(one.opcode.startswith(("add.", "sub.")) and len(one.reads) > 1 for one in counters)


def schedule_dataflow(
    instructions: Sequence[Instruction],
    cost: Callable[[Instruction], MemoryCost],
    repeats: int = 1,
    unroll: int = 1,
) -> Schedule:
    """As ``schedule``, for unscheduled code: the cycles of the last of ``repeats`` iterations.

    ``unroll`` iterations in a row count as one stretch without a branch between them; the result is for one iteration.
    """
    arrival: dict[str, float] = {}
    producer: dict[str, Instruction] = {}
    clock = unit_free = queued = copies_done = start = 0.0
    stalls: dict[int, float] = {}
    for _ in range(repeats):
        start = floor = latest = clock
        issued = 0
        stalls = {}
        stored: dict[str, list[tuple[str, int, int, float]]] = {}
        for turn in range(unroll):
            for instruction in instructions:
                issued += instruction.slots
                ready, culprit = floor, instruction
                for register in instruction.reads:
                    at = arrival.get(register, 0.0)
                    if at > ready:
                        ready, culprit = at, producer[register]
                if instruction.memory == "load" and not instruction.read_only:
                    for base, offset, size, when in stored.get(instruction.space or "", []):
                        apart = (
                            base == instruction.base
                            and turn == 0
                            and (offset + size <= instruction.offset or instruction.offset + instruction.size <= offset)
                        )
                        if not apart and when > ready:
                            ready = when
                waited = ready - max(floor, start + issued)
                if waited > 0 and culprit is not instruction and culprit.memory is not None:
                    stalls[culprit.line] = max(stalls.get(culprit.line, 0.0), waited)
                done = ready
                if instruction.memory is not None:
                    memory = cost(instruction)
                    # What is ready early goes early, whatever stands before it in the text.
                    begin = max(unit_free, ready) if ready >= queued else ready
                    done = begin + memory.passes - 1.0 + memory.latency
                    if ready >= queued and instruction.memory == "load":
                        unit_free, queued = begin + memory.passes, ready
                    if instruction.asynchronous:
                        copies_done = max(copies_done, done)
                    if instruction.memory != "load":
                        where = stored.setdefault(instruction.space or "", [])
                        where.append((instruction.base, instruction.offset, instruction.size, ready))
                elif instruction.unit == "barrier":
                    ready = max(ready, latest)
                    if instruction.opcode == "DEPBAR":
                        ready = max(ready, copies_done)
                    ready += FENCE_CYCLES if instruction.opcode == "MEMBAR" else UNIT_LATENCY["barrier"]
                    floor = done = ready
                elif instruction.slots:
                    done = ready + UNIT_LATENCY[instruction.unit]
                if instruction.fences:
                    floor = max(floor, ready)
                last_of_stretch = turn == unroll - 1
                if instruction.target is not None and not instruction.calls and last_of_stretch:
                    floor = max(floor, ready)
                latest = max(latest, ready)
                for register in instruction.writes:
                    arrival[register] = done
                    producer[register] = instruction
        clock = max(latest, start + issued)
    passes = unroll * sum(cost(i).passes for i in instructions if i.memory is not None)
    cycles = max(clock - start, passes) / unroll
    slots = sum(instruction.slots for instruction in instructions)
    return Schedule(cycles, slots, {line: waited / unroll for line, waited in stalls.items()})
