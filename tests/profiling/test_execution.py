"""Executions of blocks from counted accesses."""

from __future__ import annotations

import pytest

from optiml_core.profiling.machine_code.execution import block_executions
from optiml_core.profiling.machine_code.instructions import MachineCode
from optiml_core.profiling.machine_code.sass import read_sass
from optiml_core.records import AccessCounts

HEAD = '\t.section\t.text.kernel,"ax",@progbits\n'
WARPS = 100.0


def code(*lines: str) -> MachineCode:
    found = read_sass(HEAD + "\n".join(lines), "k.cu")
    assert found is not None
    return found


def at(line: int) -> str:
    return f'\t//## File "k.cu", line {line}'


LOAD = "        /*0000*/                   LDG.E R4, desc[UR4][R6.64] ;"
WIDE = "        /*0000*/                   LDG.E.128 R4, desc[UR4][R6.64] ;"
ADD = "        /*0000*/                   FADD R0, R0, R4 ;"
EXIT = "        /*0000*/                   EXIT ;"


def back(label: str) -> str:
    return f"        /*0000*/               @P0 BRA `({label}) ;"


def counted(line: int, requests: int, size: int = 4) -> AccessCounts:
    return AccessCounts(line, "load", "global", size, requests, requests * 32, requests * 32 * size)


def executions(machine: MachineCode, *accesses: AccessCounts, trips: dict[int, float] | None = None) -> list[float]:
    return list(block_executions(machine, accesses, WARPS, trips or {}))


def test_an_unrolled_loop_runs_as_many_times_less() -> None:
    machine = code(ADD, ".L_x_1:", at(5), LOAD, LOAD, LOAD, LOAD, back(".L_x_1"), EXIT)
    assert executions(machine, counted(5, 6400)) == [WARPS, 1600.0, WARPS]


def test_a_wider_instruction_counts_for_what_it_moves() -> None:
    machine = code(ADD, ".L_x_1:", at(5), WIDE, back(".L_x_1"), EXIT)
    assert executions(machine, counted(5, 6400))[1] == 1600.0
    assert executions(machine, counted(5, 1600, size=16))[1] == 1600.0


def test_the_remainder_of_an_unrolled_loop_does_not_count_the_same_accesses_again() -> None:
    machine = code(ADD, ".L_x_1:", at(5), LOAD, LOAD, back(".L_x_1"), ".L_x_2:", LOAD, back(".L_x_2"), EXIT)
    assert executions(machine, counted(5, 6400)) == [WARPS, 3200.0, 0.0, WARPS]


def test_blocks_of_one_loop_share_the_accesses_of_a_line() -> None:
    # Two copies of a line in one loop, parted by a branch: each runs once an iteration.
    machine = code(ADD, ".L_x_1:", at(5), LOAD, back(".L_x_9"), LOAD, ".L_x_9:", ADD, back(".L_x_1"), EXIT)
    counts = executions(machine, counted(5, 6400))
    assert counts[1] == counts[2] == 3200.0
    # The block without an access runs as often as its loop.
    assert counts[3] == 3200.0


def test_a_rare_block_outside_of_loops_runs_as_often_as_it_is_seen() -> None:
    machine = code(ADD, back(".L_x_1"), at(7), LOAD, ".L_x_1:", EXIT)
    assert executions(machine, counted(7, 10)) == [WARPS, 10.0, WARPS]


@pytest.mark.parametrize(("trips", "expected"), [({0: 50.0}, 5000.0), ({}, 800.0)])
def test_loops_without_accesses_take_the_iterations_of_the_source(trips: dict[int, float], expected: float) -> None:
    machine = code(ADD, ".L_x_1:", ADD, back(".L_x_1"), EXIT)
    assert executions(machine, trips=trips)[1] == expected


def test_a_slow_path_behind_a_call_is_not_counted() -> None:
    call = "        /*0000*/                   CALL.REL.NOINC `($slow) ;"
    machine = code(ADD, back(".L_x_1"), call, ".L_x_1:", EXIT)
    assert executions(machine)[1] == 0.0


def test_what_nothing_reaches_does_not_run() -> None:
    machine = code(EXIT, ".L_x_3:", ADD, back(".L_x_3"))
    assert executions(machine)[1] == 0.0


def test_a_path_that_was_not_taken_runs_not_at_all() -> None:
    # A vector path in line 5, the scalar path beside it in line 12, of which nobody saw an access.
    machine = code(ADD, ".L_x_1:", at(5), WIDE, back(".L_x_1"), ".L_x_2:", at(12), LOAD, ADD, back(".L_x_2"), EXIT)
    assert executions(machine, counted(5, 6400, size=16)) == [WARPS, 6400.0, 0.0, WARPS]
    # A line next to one that was seen may be the same expression, broken over two lines.
    near = code(ADD, ".L_x_1:", at(5), WIDE, back(".L_x_1"), ".L_x_2:", at(6), LOAD, ADD, back(".L_x_2"), EXIT)
    assert executions(near, counted(5, 6400, size=16))[2] > 0
