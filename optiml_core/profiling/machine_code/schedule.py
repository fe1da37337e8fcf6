"""How long one warp takes for a stretch of code: an in-order issue model with a scoreboard.

A warp issues its instructions in order, one a cycle at most; an instruction waits until the
registers it reads (and overwrites) have arrived. That is how NVIDIA's processors have worked since
Kepler (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018).
Latencies of Hopper are from Luo et al., "Benchmarking and Dissecting the NVIDIA Hopper GPU
Architecture via Microbenchmarking", 2024 (memory), the rest from the former, all in cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import field, frozen

from optiml_core.profiling.machine_code.instructions import Instruction

# Cycles from issue until a dependent instruction can issue, by the pipe that executes it.
UNIT_LATENCY = {
    "fp32": 4.0,
    "integer": 5.0,
    "fp16": 5.0,
    "fp64": 8.0,
    "special": 23.0,
    "conversion": 14.0,
    "tensor": 33.0,
    "shuffle": 24.0,
    "uniform": 12.0,
    "barrier": 22.0,
    "control": 8.0,
    "memory": 30.0,
}
FENCE_CYCLES = 600.0  # MEMBAR.GPU waits until the warp's stores are acknowledged by L2.


@frozen
class MemoryCost:
    """What one memory instruction costs a warp: ``latency`` cycles until its value is there, and
    ``passes``, cycles in which it keeps the load/store unit busy."""

    latency: float
    passes: float = 1.0


@frozen
class Schedule:
    """A stretch of code run by one warp alone: ``cycles`` an execution, waits by source line.

    ``line_stalls`` are cycles in which the warp could not issue, at the line of the instruction that
    it waited for.
    """

    cycles: float
    issued: int
    line_stalls: dict[int, float] = field(factory=dict)


def schedule(
    instructions: Sequence[Instruction], cost: Callable[[Instruction], MemoryCost], repeats: int = 1
) -> Schedule:
    """Runs ``instructions`` ``repeats`` times in a row; the cycles are those of the last repetition.

    With several repetitions this is the steady state of a loop: values that one iteration leaves in
    flight are waited for by the next. A straight stretch waits at its end for nothing.
    """
    arrival: dict[str, float] = {}
    producer: dict[str, Instruction] = {}
    clock, unit_free, copies_done = 0.0, 0.0, 0.0
    last_start = 0.0
    stalls: dict[int, float] = {}
    for repeat in range(repeats):
        last_start = clock
        if repeat == repeats - 1:
            stalls = {}
        for instruction in instructions:
            earliest = clock + 1.0
            ready, culprit = earliest, instruction
            for register in (*instruction.reads, *instruction.writes):
                at = arrival.get(register, 0.0)
                if at > ready:
                    ready, culprit = at, producer[register]
            if instruction.unit == "barrier":
                base = instruction.opcode.split(".")[0]
                if base in ("DEPBAR", "LDGDEPBAR", "SYNCS") and copies_done > ready:
                    ready = copies_done
                elif base == "MEMBAR":
                    ready += FENCE_CYCLES
            if ready > earliest:
                stalls[culprit.line] = stalls.get(culprit.line, 0.0) + ready - earliest
            clock = ready
            if instruction.memory is not None:
                memory = cost(instruction)
                unit_free = max(unit_free, clock) + memory.passes
                done = unit_free - 1.0 + memory.latency
                if instruction.asynchronous:
                    copies_done = max(copies_done, done)
            else:
                done = clock + UNIT_LATENCY[instruction.unit]
                if instruction.unit == "barrier" and instruction.opcode.startswith(("BAR", "bar")):
                    clock = done
                elif instruction.unit == "control" and instruction.target is not None:
                    clock += 2.0  # A taken branch refills the instruction buffer.
            for register in instruction.writes:
                arrival[register] = done
                producer[register] = instruction
    # The load/store unit works on while the warp waits elsewhere; a loop cannot be faster than it.
    passes = sum(cost(i).passes for i in instructions if i.memory is not None)
    cycles = max(clock - last_start, passes)
    return Schedule(cycles, len(instructions), stalls)
