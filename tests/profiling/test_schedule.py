"""One warp's time: what waits, what overlaps."""

from __future__ import annotations

import pytest

from optiml_core.profiling.machine_code.dataflow import schedule_dataflow, unroll_factor
from optiml_core.profiling.machine_code.instructions import Instruction
from optiml_core.profiling.machine_code.schedule import MemoryCost, schedule

LATENCY = 400.0


def load(register: str, line: int = 1, offset: int = 0, read_only: bool = False) -> Instruction:
    return Instruction(
        "ld", "memory", line, ("a",), (register,), memory="load", space="global", size=4, base="a",
        offset=offset, read_only=read_only,
    )  # fmt: skip


def store(register: str, offset: int = 0, base: str = "a") -> Instruction:
    return Instruction(
        "st", "memory", 3, (base, register), memory="store", space="global", size=4, base=base, offset=offset
    )


def add(target: str, *sources: str, line: int = 2) -> Instruction:
    return Instruction("add", "fp32", line, sources, (target,))


def branch() -> Instruction:
    return Instruction("bra", "control", 4, ("p",), target="top", guarded=True)


def cost(instruction: Instruction) -> MemoryCost:
    return MemoryCost(LATENCY if instruction.memory == "load" else 1.0)


def test_loads_in_flight_together_cost_one_latency() -> None:
    together = [load("r0"), load("r1"), load("r2"), add("s", "r0"), add("s", "s", "r1"), add("s", "s", "r2")]
    apart = [load("r0"), add("s", "r0"), load("r0"), add("s", "s", "r0"), load("r0"), add("s", "s", "r0")]
    assert schedule(together, cost).cycles == pytest.approx(LATENCY, abs=20)
    assert schedule(apart, cost).cycles == pytest.approx(3 * LATENCY, abs=20)


def test_waiting_is_charged_to_the_line_that_was_waited_for() -> None:
    result = schedule([load("r0", line=7), add("s", "r0", line=9)], cost)
    assert result.line_stalls[7] == pytest.approx(LATENCY, abs=5)
    assert 9 not in result.line_stalls


def test_a_chain_of_arithmetic_costs_its_latencies() -> None:
    chain = [add("s", "s") for _ in range(10)]
    free = [add(f"r{i}", "x") for i in range(10)]
    assert schedule(chain, cost).cycles == pytest.approx(37, abs=1)
    assert schedule(free, cost).cycles == 10


def test_a_store_is_not_waited_for() -> None:
    assert schedule([store("x"), add("s", "y")], cost).cycles < 5


def test_overwriting_a_value_in_flight_waits_for_it() -> None:
    assert schedule([load("r0"), add("r0", "x")], cost).cycles > LATENCY


def test_a_loop_is_charged_its_steady_state() -> None:
    # The value loaded in one iteration is used in the next: the wait shows from the second on.
    body = [add("s", "s", "r0"), load("r0"), branch()]
    assert schedule(body, cost, repeats=1).cycles < 20
    assert schedule(body, cost, repeats=3).cycles == pytest.approx(LATENCY, abs=10)


def test_the_load_store_unit_bounds_a_loop() -> None:
    body = [load(f"r{i}") for i in range(4)]
    result = schedule(body, lambda instruction: MemoryCost(40.0, passes=32.0), repeats=3)
    assert result.cycles >= 128


@pytest.mark.parametrize(("opcode", "at_least"), [("BAR.SYNC", 20), ("MEMBAR.SC.GPU", 600)])
def test_barriers_and_fences_cost(opcode: str, at_least: float) -> None:
    assert schedule([Instruction(opcode, "barrier", 1), add("s", "x")], cost).cycles >= at_least


def test_asynchronous_copies_wait_at_their_fence_only() -> None:
    copy = Instruction("LDGSTS", "memory", 1, ("a",), memory="load", space="global", size=16, asynchronous=True)
    fence = Instruction("DEPBAR", "barrier", 2)
    assert schedule([copy, add("s", "x")], cost).cycles < 10
    assert schedule([copy, fence, add("s", "x")], cost).cycles >= LATENCY


# ------------------------------------------------------------------------------- unscheduled code


def test_unscheduled_loads_move_up_to_each_other() -> None:
    apart = [load("r0"), add("s", "r0"), load("r1"), add("s", "s", "r1"), load("r2"), add("s", "s", "r2")]
    assert schedule_dataflow(apart, cost).cycles == pytest.approx(LATENCY, abs=20)


def test_a_store_that_may_alias_stops_them_but_not_another_place_of_the_same_array() -> None:
    def body(base: str) -> list[Instruction]:
        return [
            load("r0"),
            add("x0", "r0"),
            store("x0", 0, base),
            load("r1", offset=4),
            add("x1", "r1"),
            store("x1", 4, base),
        ]

    assert schedule_dataflow(body("b"), cost).cycles > 2 * LATENCY
    assert schedule_dataflow(body("a"), cost).cycles < 1.2 * LATENCY


def test_read_only_loads_pass_any_store() -> None:
    def body(read_only: bool) -> list[Instruction]:
        return [load("r0"), add("x", "r0"), store("x", 0, "b"), load("r1", read_only=read_only), add("y", "r1")]

    assert schedule_dataflow(body(True), cost).cycles < 1.2 * LATENCY
    assert schedule_dataflow(body(False), cost).cycles > 1.9 * LATENCY


def test_a_division_with_a_slow_path_keeps_later_loads_below_it() -> None:
    def body(fences: bool) -> list[Instruction]:
        divide = Instruction("div", "special", 2, ("r0",), ("x",), fences=fences)
        return [load("r0"), divide, load("r1"), add("y", "r1")]

    assert schedule_dataflow(body(False), cost).cycles < 1.2 * LATENCY
    assert schedule_dataflow(body(True), cost).cycles > 1.9 * LATENCY


def test_iterations_do_not_overlap_unless_they_are_unrolled() -> None:
    body = [load("r0"), add("s", "s", "r0"), branch()]
    assert schedule_dataflow(body, cost, repeats=3).cycles == pytest.approx(LATENCY, abs=20)
    assert schedule_dataflow(body, cost, repeats=3, unroll=4).cycles == pytest.approx(LATENCY / 4, abs=20)


@pytest.mark.parametrize(
    ("body", "factor"),
    [
        ([*(load(f"r{i}") for i in range(4)), branch()], 4),
        ([load("r0"), branch()], 1),
        ([*(load(f"r{i}") for i in range(4)), Instruction("bar", "barrier", 1), branch()], 1),
        ([*(load(f"r{i}") for i in range(40)), branch()], 1),
        ([*(load(f"r{i}") for i in range(4)), branch(), branch()], 1),
    ],
)
def test_only_short_simple_loops_are_unrolled_again(body: list[Instruction], factor: int) -> None:
    assert unroll_factor(body) == factor


@pytest.mark.parametrize(("step", "factor"), [((), 4), (("n",), 1)])
def test_a_loop_whose_step_is_no_number_is_not_unrolled_again(step: tuple[str, ...], factor: int) -> None:
    counted = Instruction("add.s32", "integer", 4, ("c", *step), ("c",))
    test = Instruction("setp.lt.s32", "integer", 4, ("c", "limit"), ("p",))
    body = [load("r0"), load("r1"), load("r2"), load("r3"), add("s", "s", "r0"), counted, test, branch()]
    assert unroll_factor(body) == factor
