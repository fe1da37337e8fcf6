"""How a candidate's launch differs, and what a candidate may not change."""

from __future__ import annotations

import pytest

from optiml_core.records import Failure, Launch, LaunchChange
from optiml_core.workload import launch_change_of, resolve_launch
from tests.workload.cases import unit_of, workload_of

DECLARED = (
    "// optiml: rows = 100, cols = 70, tile = 8, x[rows * cols]: normal(0, 1), y[rows * cols], s = 0.5\n"
    "// optiml: block = (32, tile), grid = (ceil_div(cols, 32), ceil_div(rows, tile)), require cols > 3\n"
)
KERNEL = "__global__ void f(const float* x, float* y, int rows, int cols, float s) {}\n"


def change_of(original: str, candidate: str) -> LaunchChange | Failure:
    unit = unit_of(candidate)
    return launch_change_of(workload_of(original), unit, unit.kernels[0])


def check(original: str, candidate: str, expected: LaunchChange) -> None:
    assert change_of(original, candidate) == expected
    assert isinstance(resolve_launch(workload_of(original), 0, {}, expected), Launch)


GRID = "grid = (ceil_div(cols, 32), ceil_div(rows, tile))"


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (DECLARED + KERNEL, LaunchChange()),
        (KERNEL, LaunchChange()),
        ("// optiml: block = 256, grid = rows\n" + KERNEL, LaunchChange(("rows", "1", "1"), ("256", "1", "1"))),
        ("// optiml: block = (32, 16)\n" + KERNEL, LaunchChange(block=("32", "16", "1"))),
        ("// optiml: block = (32, tile)\n" + KERNEL, LaunchChange()),
        ("// optiml: shared = 4 * cols\n" + KERNEL, LaunchChange(shared="4 * cols")),
        # A helper name of its own stands for its value.
        ("// optiml: per = 4, grid = ceil_div(rows, per)\n" + KERNEL, LaunchChange(("ceil_div(rows, 4)", "1", "1"))),
        ("// optiml: a = 2, b = a * 4, grid = rows / b\n" + KERNEL, LaunchChange(("rows / (2 * 4)", "1", "1"))),
        # What it repeats of the original is no change, in whatever order.
        (DECLARED.replace(GRID, "grid = cols") + KERNEL, LaunchChange(("cols", "1", "1"))),
        ("// optiml: x: normal(0, 1), rows = 100, block = 64\n" + KERNEL, LaunchChange(block=("64", "1", "1"))),
        # Parameters correspond by position.
        (
            "// optiml: block = m, grid = n\n__global__ void f(const float* a, float* b, int n, int m, float t) {}\n",
            LaunchChange(("rows", "1", "1"), ("cols", "1", "1")),
        ),
    ],
)
def test_from_the_candidates_comment(candidate: str, expected: LaunchChange) -> None:
    check(DECLARED + KERNEL, candidate, expected)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("rows = 99", "`rows = 99` differs from the original's, which has `rows = 100`"),
        ("tile = 16, grid = ceil_div(rows, tile)", "`tile = 16` differs"),
        ("x[rows * cols]: zeros", "differs"),
        ("y[1]", "differs"),
        ("y: normal", "differs"),
        ("s = 1.0", "differs"),
        ("require cols % 4 == 0", "is not one of the original's"),
        ("grid = ", "a value is missing"),
        ("grid = missing", "`missing`, which the original does not have"),
    ],
)
def test_a_candidate_may_set_nothing_else(line: str, part: str) -> None:
    failure = change_of(DECLARED + KERNEL, f"// optiml: {line}\n{KERNEL}")
    assert isinstance(failure, Failure)
    assert failure.kind == "bad-input"
    assert part in failure.message
    assert failure.line is not None


def test_a_further_launch_is_not_the_candidates_to_add() -> None:
    failure = change_of(DECLARED + KERNEL, "// optiml launch: rows = 5\n" + KERNEL)
    assert isinstance(failure, Failure)


HOST = (
    "int main() {{ int rows = 100, cols = 70; float *x, *y; cudaMalloc(&x, rows * cols * 4);\n"
    "cudaMalloc(&y, rows * cols * 4); dim3 block({block}); dim3 grid({grid});\n"
    "f<<<grid, block, {shared}>>>(x, y, rows, cols, 0.5f); }}\n"
)


def host(block: str = "32, 8", grid: str = "(cols + 31) / 32, (rows + 7) / 8", shared: str = "0") -> str:
    return KERNEL + HOST.format(block=block, grid=grid, shared=shared)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (host(), LaunchChange()),
        (host(grid="rows", block="256"), LaunchChange(("rows", "1", "1"), ("256", "1", "1"))),
        (host(block="32, 8, 1"), LaunchChange()),
        (host(shared="cols * sizeof(float)"), LaunchChange(shared="cols * 4")),
        (host(block="16, 16"), LaunchChange(block=("16", "16", "1"))),
        (
            "#define PER 4\n" + host(grid="(rows + PER - 1) / PER"),
            LaunchChange(("ceil_div(rows, 4)", "1", "1")),
        ),
        (host().replace("rows", "r").replace("cols", "c"), LaunchChange()),
    ],
)
def test_from_the_candidates_launch_site(candidate: str, expected: LaunchChange) -> None:
    check(host(), candidate, expected)


def test_a_comment_goes_before_the_launch_site() -> None:
    check(host(), "// optiml: block = 64\n" + host(block="128"), LaunchChange(block=("64", "1", "1")))


def test_a_declared_original_takes_the_candidates_launch_site() -> None:
    check(DECLARED + KERNEL, host(block="64", grid="rows"), LaunchChange(("rows", "1", "1"), ("64", "1", "1"), None))


def test_a_launch_that_cannot_be_read_is_could_not_tell() -> None:
    failure = change_of(host(), host(grid="from_a_file()"))
    assert isinstance(failure, Failure)
    assert failure.kind == "unsupported"
    assert "could not tell" in failure.message


def test_different_launches_are_could_not_tell() -> None:
    twice = host().replace("0.5f); }", "0.5f); f<<<rows, 64>>>(x, y, rows, cols, 0.5f); }")
    failure = change_of(host(), twice)
    assert isinstance(failure, Failure)
    assert "which of the candidate's 2 launches" in failure.message


TEMPLATE = "template <typename T, int TILE> __global__ void f(const T* x, float* y, int n) {}\n"
OF_TEMPLATE = "// optiml: T = double, TILE = 8, n = 64, x[n]: normal, y[n], block = TILE, grid = n / TILE\n" + TEMPLATE


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("T = double, TILE = 8, block = TILE, grid = n / TILE", LaunchChange(("n / 8", "1", "1"), ("8", "1", "1"))),
        (
            "T = double, TILE = 16, block = TILE, grid = n / TILE",
            LaunchChange(("n / 16", "1", "1"), ("16", "1", "1"), None, ("double", "16")),
        ),
    ],
)
def test_template_arguments(line: str, expected: LaunchChange) -> None:
    check(OF_TEMPLATE, f"// optiml: {line}\n{TEMPLATE}", expected)


def test_a_candidate_that_becomes_a_template_names_its_arguments() -> None:
    plain = "// optiml: n = 64, y[n], block = 8, grid = 8\n__global__ void f(float* y, int n) {}\n"
    template = "template <int TILE> __global__ void f(float* y, int n) {}\n"
    expected = LaunchChange(block=("16", "1", "1"), template_arguments=("8",))
    check(plain, f"// optiml: TILE = 8, block = 16\n{template}", expected)
    failure = change_of(plain, template)
    assert isinstance(failure, Failure)
    assert "could not tell the template arguments" in failure.message
