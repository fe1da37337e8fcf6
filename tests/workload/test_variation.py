"""Varied sizes and scalars: enough shapes, each size on its own, requirements hold, small enough to emulate."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optiml_core.records import BufferArgument, Launch
from optiml_core.workload import Workload, larger_sizes, resolve_launch, size_variations
from optiml_core.workload.variation import LARGEST_ELEMENTS, LARGEST_THREADS
from tests.workload.cases import workload_of

ONE = (
    "// optiml: n = 100000000, x[n]: normal, y[n], block = 256, grid = ceil_div(n, 256)\n"
    "__global__ void f(const float* x, float* y, int n) {}\n"
)
TWO = (
    "// optiml: rows = 8192, cols = 50257, x[rows * cols]: normal, y[rows * cols], block = 256, grid = rows\n"
    "__global__ void f(const float* x, float* y, int rows, int cols) {}\n"
)
THREE = (
    "// optiml: M = 4096, N = 4096, K = 4096, alpha = 0.5, A[M * K]: normal, B[K * N]: normal, C[M * N]: normal\n"
    "// optiml: block = (32, 32), grid = (ceil_div(M, 32), ceil_div(N, 32))\n"
    "__global__ void f(int M, int N, int K, float alpha, const float* A, const float* B, float* C) {}\n"
)


def launches(workload: Workload, seed: int = 0) -> list[Launch]:
    found = [resolve_launch(workload, 0, variation) for variation in size_variations(workload, seed)]
    assert all(isinstance(launch, Launch) for launch in found)
    return [launch for launch in found if isinstance(launch, Launch)]


def is_prime(number: float) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("text", [ONE, TWO, THREE])
def test_at_least_four_shapes_with_one_a_prime_and_no_multiple_of_a_block(text: str, seed: int) -> None:
    workload = workload_of(text)
    found = launches(workload, seed)
    shapes = {tuple(launch.names[name] for name in workload.sizes) for launch in found}
    assert len(shapes) >= 4
    assert (1,) * len(workload.sizes) in shapes
    assert any(all(is_prime(size) for size in shape) for shape in shapes)
    for position, name in enumerate(workload.sizes):
        values = {shape[position] for shape in shapes}
        assert len(values) >= 3, name
        assert 1 in values
        assert any(value % 32 for value in values if value > 32)
        assert any(value % 32 == 0 for value in values)


@pytest.mark.parametrize("text", [ONE, TWO, THREE])
def test_a_varied_launch_is_small(text: str) -> None:
    for launch in launches(workload_of(text)):
        threads = launch.grid[0] * launch.grid[1] * launch.grid[2] * launch.block[0] * launch.block[1] * launch.block[2]
        elements = sum(one.length for one in launch.arguments if isinstance(one, BufferArgument))
        assert threads <= LARGEST_THREADS
        assert elements <= LARGEST_ELEMENTS


@pytest.mark.parametrize("text", [TWO, THREE])
def test_sizes_vary_on_their_own(text: str) -> None:
    """No two sizes are equal in every shape, in either direction: swapped rows and columns show."""
    workload = workload_of(text)
    names = [launch.names for launch in launches(workload)]
    for first in workload.sizes:
        for second in workload.sizes:
            if first != second:
                assert any(one[first] > 2 * one[second] for one in names), (first, second)


def test_some_shape_needs_several_blocks_and_some_a_part_of_one() -> None:
    found = launches(workload_of(ONE))
    assert any(launch.grid[0] > 1 for launch in found)
    assert any(launch.names["n"] < 256 for launch in found)
    columns = [launch.names["cols"] for launch in launches(workload_of(TWO))]
    assert max(columns) > 256


def test_lengths_and_grid_follow() -> None:
    for launch in launches(workload_of(ONE)):
        n = launch.names["n"]
        assert launch.grid[0] == -(-n // 256)
        assert [one.length for one in launch.arguments if isinstance(one, BufferArgument)] == [n, n]


@pytest.mark.parametrize(
    "requirement",
    [
        "cols % 4 == 0",
        "rows % 32 == 0, require cols % 32 == 0",
        "rows == cols",
        "rows <= cols",
        "rows * cols >= 100",
        "cols > 600",
    ],
)
def test_requirements_hold(requirement: str) -> None:
    text = TWO.replace("block = 256", f"block = 256, require {requirement}")
    workload = workload_of(text)
    shapes = {(launch.names["rows"], launch.names["cols"]) for launch in launches(workload)}
    assert len(shapes) >= 4


def test_other_scalars_take_zero_one_minus_one_and_others() -> None:
    alphas = {launch.names["alpha"] for launch in launches(workload_of(THREE))}
    assert alphas == {0.5, 0.0, 1.0, -1.0, 2.5, -40.0}


@pytest.mark.parametrize(
    ("parameter", "declared", "values"),
    [
        ("int shift", 3, {3, 0, 1, -1, 2, 7, 37, 1000003}),
        ("unsigned shift", 3, {3, 0, 1, 2, 7, 37, 1000003}),
        ("bool shift", 1, {1, 0}),
        ("float shift", 0.1, {0.1, 0, 1, -1, 2.5, -40}),
    ],
)
def test_scalars_vary_within_their_type(parameter: str, declared: float, values: set[float]) -> None:
    text = ONE.replace("int n", f"int n, {parameter}").replace("block", f"shift = {declared}, block")
    assert {launch.names["shift"] for launch in launches(workload_of(text))} == values


def test_a_block_size_and_a_constant_of_the_file_stay() -> None:
    text = (
        "#define TILE 16\n"
        "// optiml: n = 4096, threads = 64, x[n * TILE]: normal, block = threads, grid = ceil_div(n, threads)\n"
        "__global__ void f(float* x, int n) { x[threadIdx.x * TILE] = n; }\n"
    )
    workload = workload_of(text)
    assert workload.sizes == ("n",)
    for launch in launches(workload):
        assert launch.names["threads"] == 64
        assert launch.names["TILE"] == 16


def test_a_dimension_that_is_small_when_declared_stays_near() -> None:
    text = TWO.replace("cols = 50257", "cols = 9")
    columns = {launch.names["cols"] for launch in launches(workload_of(text))}
    assert max(columns) <= 16
    assert len(columns) >= 4


def test_a_size_that_no_length_follows_does_not_grow() -> None:
    text = (
        "// optiml: n = 100, x[100]: normal, y[100], block = 256, grid = 1\n"
        "__global__ void f(const float* x, float* y, int n) { if (threadIdx.x < n) y[0] = x[0]; }\n"
    )
    workload = workload_of(text)
    assert workload.sizes == ("n",)
    assert all(launch.names["n"] <= 100 for launch in launches(workload))


SMALL = TWO.replace("8192", "90").replace("50257", "900")


def test_larger_sizes_are_several_times_what_is_declared() -> None:
    """A candidate that holds a row in four registers a thread is right for 900 columns and not for 1801."""
    found = larger_sizes(workload_of(SMALL))
    assert [one["rows"] > 4 * 90 for one in found] == [True, False]
    assert [one["cols"] > 4 * 900 for one in found] == [False, True]


def test_nothing_larger_is_run_than_can_be() -> None:
    assert larger_sizes(workload_of(ONE)) == ()


def test_a_larger_size_keeps_to_what_is_required() -> None:
    text = SMALL.replace("block = 256", "require cols % 6 == 0, block = 256")
    assert [one["cols"] % 6 for one in larger_sizes(workload_of(text))] == [0, 0]


@pytest.mark.parametrize(
    ("body", "sizes"),
    [
        ("if (i < n) y[i] = x[i] * k;", ("n",)),
        ("if (i < n) g(k);", ("n",)),
        ("for (int j = 0; j < (k + 1) * 2; ++j) y[j] = n;", ("n", "k")),
        ("for (int j = 0; n > j && k; ++j) y[j] = k >> 1;", ("n",)),
        ("y[n << k] = i->k;", ("n",)),
    ],
)
def test_a_size_is_what_something_is_compared_with(body: str, sizes: tuple[str, ...]) -> None:
    text = (
        "// optiml: n = 500, k = 3, x[n]: normal, y[n], block = 64, grid = ceil_div(n, 64)\n"
        f"__global__ void f(const float* x, float* y, int n, int k) {{ {body} }}\n"
    )
    assert workload_of(text).sizes == sizes


def test_without_sizes_there_is_the_declared_launch() -> None:
    text = "// optiml: x[64]: normal, block = 64, grid = 1\n__global__ void f(float* x) {}\n"
    assert size_variations(workload_of(text), 0) == ({},)


def test_what_cannot_shrink_is_still_varied() -> None:
    text = ONE.replace("x[n]", "x[100000000]").replace("y[n]", "y[100000000]")
    assert len(size_variations(workload_of(text), 0)) >= 2


def test_the_seed_decides() -> None:
    workload = workload_of(TWO)
    assert size_variations(workload, 3) == size_variations(workload, 3)
    assert len({str(size_variations(workload, seed)) for seed in range(4)}) > 1


@settings(max_examples=40, deadline=None)
@given(
    declared=st.lists(st.integers(1, 100_000), min_size=1, max_size=5),
    threads=st.sampled_from([1, 32, 96, 256, 1024]),
    seed=st.integers(0, 9),
)
def test_any_workload_is_varied_within_bounds(declared: list[int], threads: int, seed: int) -> None:
    names = [f"n{position}" for position in range(len(declared))]
    product = " * ".join(names)
    values = ", ".join(f"{name} = {value}" for name, value in zip(names, declared, strict=True))
    text = (
        f"// optiml: {values}, x[{product}]: normal, block = {threads}, grid = ceil_div({product}, {threads})\n"
        f"__global__ void f(float* x, {', '.join(f'int {name}' for name in names)}) {{}}\n"
    )
    workload = workload_of(text)
    variations = size_variations(workload, seed)
    assert variations
    for variation in variations:
        launch = resolve_launch(workload, 0, variation)
        if isinstance(launch, Launch):
            lengths = sum(one.length for one in launch.arguments if isinstance(one, BufferArgument))
            assert lengths <= LARGEST_ELEMENTS


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("power", [2, 3])
def test_the_side_of_a_square_stays_short_enough_for_a_product_and_long_enough_for_two_tiles(
    power: int, seed: int
) -> None:
    """The work of a matrix product grows faster than its elements: at 300 it would take seconds a run."""
    length = " * ".join(["n"] * power)
    workload = workload_of(
        f"// optiml: n = 4096, a[{length}]: normal, c[{length}], block = (16, 16)\n"
        "// optiml: grid = (ceil_div(n, 16), ceil_div(n, 16))\n"
        "__global__ void f(const float* a, float* c, int n) {}\n"
    )
    sizes = [int(launch.names["n"]) for launch in launches(workload, seed)]
    assert max(sizes) <= (200 if power == 2 else 100)
    assert any(size > (96 if power == 2 else 32) and size % 2 for size in sizes)
