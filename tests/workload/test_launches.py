"""From expressions to launches: what follows what, limits, and what a change of the launch does."""

from __future__ import annotations

import pytest

from optiml_core.records import BufferArgument, Failure, Launch, LaunchChange, ScalarArgument
from optiml_core.workload import resolve_launch, with_instantiation
from tests.workload.cases import failure_of, launch_of, workload_of

TEXT = (
    "// optiml: n = 1000, tile = 2 * 8, m = n / tile, x[n]: normal, y[m + 1]\n"
    "// optiml: block = tile, grid = ceil_div(n, tile), shared = tile * 4\n"
    "// optiml launch: n = 5, tile = 3\n"
    "__global__ void f(const float* x, double* y, int n, long m) {}\n"
)


def test_expressions_follow_what_is_overridden() -> None:
    launch = launch_of(TEXT, n=100)
    assert launch.names == {"n": 100, "tile": 16, "m": 6}
    assert (launch.grid, launch.block, launch.shared) == ((7, 1, 1), (16, 1, 1), 64)
    assert [(one.name, one.length) for one in launch.arguments if isinstance(one, BufferArgument)] == [
        ("x", 100),
        ("y", 7),
    ]
    assert [(one.name, one.value) for one in launch.arguments if isinstance(one, ScalarArgument)] == [
        ("n", 100),
        ("m", 6),
    ]


def test_an_override_replaces_an_expression_too() -> None:
    assert launch_of(TEXT, m=2).names == {"n": 1000, "tile": 16, "m": 2}


def test_a_launch_line_overrides_names() -> None:
    launch = resolve_launch(workload_of(TEXT), 1)
    assert isinstance(launch, Launch)
    assert launch.names == {"n": 5, "tile": 3, "m": 1}
    assert launch.grid == (2, 1, 1)


def test_the_order_of_declaration_does_not_matter() -> None:
    text = "// optiml: a = b + 1, b = c * 2, c = 3, block = a, grid = 1\n__global__ void f(int a) {}\n"
    assert launch_of(text).names == {"a": 7, "b": 6, "c": 3}


@pytest.mark.parametrize(
    ("declaration", "parameters", "part", "column"),
    [
        ("a = b, b = a, block = 1, grid = 1", "int a", "depends on itself", 23),
        ("n = 1, block = 1025, grid = 1", "int n", "outside", None),
        ("n = 1, block = (32, 33), grid = 1", "int n", "more than 1024 threads", None),
        ("n = 1, block = (1, 1, 65), grid = 1", "int n", "outside", None),
        ("n = 1, block = 1, grid = 0", "int n", "outside", None),
        ("n = 1, block = 1, grid = (1, 70000)", "int n", "outside", None),
        ("n = 1, block = 1, grid = 1, shared = 300000", "int n", "shared memory", None),
        ("n = 1, block = 1.5, grid = 1", "int n", "whole number", 19),
        ("n = 3000000000, block = 1, grid = 1", "int n", "does not fit", 12),
        ("n = -1, block = 1, grid = 1", "unsigned n", "does not fit", 12),
        ("n = 1.5, block = 1, grid = 1", "int n", "does not fit", 12),
        ("n = 4, x[n - 5]: normal, block = 1, grid = 1", "float* x, int n", "negative", 19),
        ("n = 4, block = n / (n - 4), grid = 1", "int n", "division by zero", 29),
        ("n = 4, require n > 4, block = 1, grid = 1", "int n", "does not hold: 4 > 4", 19),
    ],
)
def test_what_cannot_be_launched(declaration: str, parameters: str, part: str, column: int | None) -> None:
    failure = failure_of(f"// optiml: {declaration}\n__global__ void f({parameters}) {{}}\n")
    assert part in failure.message
    assert failure.kind == "bad-input"
    assert failure.column == column


@pytest.mark.parametrize(
    ("parameters", "declaration", "value"),
    [
        ("int n", "n = 1e3", 1000),
        ("float s", "s = 3", 3.0),
        ("bool b", "b = 1", True),
        ("unsigned char c", "c = 255", 255),
        ("float3 v", "v.x = 1, v.y = 2.5", {"x": 1.0, "y": 2.5, "z": 0.0}),
        ("dim3 d", "d.x = 2", {"x": 2, "y": 0, "z": 0}),
    ],
)
def test_scalar_values(parameters: str, declaration: str, value: object) -> None:
    launch = launch_of(f"// optiml: {declaration}, block = 1, grid = 1\n__global__ void f({parameters}) {{}}\n")
    argument = launch.arguments[0]
    assert isinstance(argument, ScalarArgument)
    assert argument.value == value
    assert type(argument.value) is type(value)


@pytest.mark.parametrize("parameters", ["float** x", "int& n", "Unknown u", "std::vector<int> v"])
def test_types_that_no_launch_can_have(parameters: str) -> None:
    name = parameters.split()[-1]
    declared = f"{name}[4]: normal" if "*" in parameters else f"{name} = 1"
    text = f"// optiml: {declared}, block = 1, grid = 1\n__global__ void f({parameters}) {{}}\n"
    failure = failure_of(text)
    assert failure.kind == "unsupported"
    assert f"`{name}`" in failure.message


def test_a_template_takes_types_and_values() -> None:
    text = (
        "// optiml: T = double, TILE = 4, x[TILE * n]: normal, n = 3, block = TILE, grid = n, flag = 1\n"
        "template <typename T, int TILE, bool flag> __global__ void f(const T* x, int n) {}\n"
    )
    launch = launch_of(text)
    assert launch.template_arguments == ("double", "4", "true")
    argument = launch.arguments[0]
    assert isinstance(argument, BufferArgument)
    assert (argument.element.dtype, argument.length) == ("float64", 12)
    other = resolve_launch(with_instantiation(workload_of(text), ("float", "4", "true")))
    assert isinstance(other, Launch)
    assert isinstance(other.arguments[0], BufferArgument)
    assert other.arguments[0].element.dtype == "float32"


# ------------------------------------------------------------------------------------- changes


def changed(change: LaunchChange) -> Launch | Failure:
    return resolve_launch(workload_of(TEXT), 0, {}, change)


def test_a_change_may_use_names_and_the_originals_shape() -> None:
    grid, block = ("ceil_div(grid.x, 2)", "2", "1"), ("block.x * 2", "1", "1")
    launch = changed(LaunchChange(grid, block, "shared + n"))
    assert isinstance(launch, Launch)
    assert (launch.grid, launch.block, launch.shared) == ((32, 2, 1), (32, 1, 1), 1064)
    assert [one.name for one in launch.arguments] == ["x", "y", "n", "m"]


def test_a_change_keeps_what_it_does_not_name() -> None:
    launch = changed(LaunchChange(block=("8", "4", "1")))
    assert isinstance(launch, Launch)
    assert (launch.grid, launch.block, launch.shared) == ((63, 1, 1), (8, 4, 1), 64)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (LaunchChange(grid=("missing", "1", "1")), "unknown name `missing`"),
        (LaunchChange(grid=("1 +", "1", "1")), "cannot be evaluated"),
        (LaunchChange(block=("2048", "1", "1")), "outside"),
        (LaunchChange(shared="n / 3.0"), "no whole number"),
        (LaunchChange(shared="__import__('os')"), "cannot be evaluated"),
    ],
)
def test_a_change_that_cannot_be_launched(change: LaunchChange, part: str) -> None:
    failure = changed(change)
    assert isinstance(failure, Failure)
    assert part in failure.message


def test_a_candidates_template_arguments_leave_the_originals_buffers_alone() -> None:
    text = "// optiml: x[4]: normal, block = 1, grid = 1\ntemplate <typename T = float> __global__ void f(T* x) {}\n"
    launch = resolve_launch(workload_of(text), 0, {}, LaunchChange(template_arguments=("double",)))
    assert isinstance(launch, Launch)
    assert launch.template_arguments == ("double",)
    assert isinstance(launch.arguments[0], BufferArgument)
    assert launch.arguments[0].element.dtype == "float32"
