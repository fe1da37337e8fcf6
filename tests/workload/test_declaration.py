"""Declarations in comments and in TOML: what is read, where errors point, and text that reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.records import Failure
from optiml_core.workload import find_workload, parse_declaration
from optiml_core.workload.expression import Binary, Call, Expression, Name, Number
from optiml_core.workload.items import (
    CONTENTS,
    RELATIONS,
    Buffer,
    Content,
    Item,
    Place,
    Requirement,
    Scalar,
    Shape,
    SharedMemory,
    TypeArgument,
    item_key,
    read_items,
    write_item,
)
from optiml_core.workload.record import text_of
from tests.workload.cases import failure_of, kernel_of, launch_of, unit_of, workload_of

KERNEL = "__global__ void f(const float* x, float* y, int rows, int cols, float eps) {}\n"
WHOLE = (
    "// optiml: rows = 1024, cols = 4096, x[rows * cols]: normal(0, 1), y[rows * cols], eps = 1e-5\n"
    "// optiml: block = (32, 8), grid = (ceil_div(cols, 32), ceil_div(rows, 8)), shared = 4 * cols, "
    "require cols % 4 == 0\n"
    "// optiml launch: rows = 64, cols = 100000\n"
)


def test_the_example_of_the_design() -> None:
    workload = workload_of(WHOLE + KERNEL)
    assert workload.origin == "declared"
    assert workload.problems == ()
    assert workload.failures == ()
    assert workload.launch_count == 2
    launch = launch_of(WHOLE + KERNEL)
    assert (launch.grid, launch.block, launch.shared) == ((128, 128, 1), (32, 8, 1), 16384)
    assert [argument.name for argument in launch.arguments] == ["x", "y", "rows", "cols", "eps"]


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("rows=1024,cols =4096", ["rows = 1024", "cols = 4096"]),
        ("x[ rows*cols ] : normal( 0,1 )", ["x[rows * cols]: normal(0, 1)"]),
        ("x: uniform", ["x: uniform"]),
        ("y", ["y"]),
        ("y[3]", ["y[3]"]),
        ("grid = (a + b) / 2", ["grid = (a + b) / 2"]),
        ("grid = (4)", ["grid = 4"]),
        ("block = (32, 4, 2)", ["block = (32, 4, 2)"]),
        ("d.n = 3, p.d.n = 4", ["d.n = 3", "p.d.n = 4"]),
        ("Real = double", ["Real = double"]),
        ("Real = unsigned long long, n = 3", ["Real = unsigned long long", "n = 3"]),
        ("Real = thrust::pair<int, float>, n = 3", ["Real = thrust::pair<int, float>", "n = 3"]),
        ("require n >= 1", ["require n >= 1"]),
        ("z[min(a, b)]: index(max(a, 2))", ["z[min(a, b)]: index(max(a, 2))"]),
        ("x[n]: normal()", ["x[n]: normal"]),
    ],
)
def test_items(line: str, written: list[str]) -> None:
    items, failures = read_items(line, Place("k.cu", 1, 1), ["Real"])
    assert failures == ()
    assert [write_item(item) for item in items] == written


@pytest.mark.parametrize(
    ("line", "column", "part"),
    [
        ("rows =", 7, "a value is missing"),
        ("rows 3", 6, "unexpected `3`"),
        ("rows = 3 cols = 4", 10, "unexpected `cols`"),
        ("rows = 3,, cols = 4", 10, "an item is missing"),
        ("rows = 3,", 10, "an item is missing"),
        ("3 = rows", 1, "expected a name"),
        ("x[n: normal", 4, "expected `]`"),
        ("x[n]: gauss", 7, "unknown content `gauss`"),
        ("x[n]: normal(0)", 7, "no or 2 parameters"),
        ("x[n]: constant", 7, "takes 1 parameter"),
        ("x[n]: zeros(3)", 7, "takes no parameters"),
        ("grid", 1, "needs a value"),
        ("grid = (1, 2, 3, 4)", 8, "at most three"),
        ("require n", 10, "expected a relation"),
        ("require 1 < n < 3", 15, "one relation"),
        ("x[n]: normal(0, 1) y[n]", 20, "unexpected `y`"),
    ],
)
def test_an_error_points_at_its_column(line: str, column: int, part: str) -> None:
    text = f"// optiml: {line}\n{KERNEL}"
    failure = failure_of(text)
    assert (failure.kind, failure.file, failure.line) == ("bad-input", "k.cu", 1)
    assert failure.column == column + len("// optiml: ")
    assert part in f"{failure.message} {failure.cure}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("// optiml: rows = 3\n// optiml: rows = 4\n" + KERNEL, "`rows` is declared twice"),
        ("// optiml: x = 3\n" + KERNEL, "`x` is a pointer"),
        ("// optiml: rows: normal\n" + KERNEL, "`rows` is not a pointer"),
        ("// optiml: w[3]: normal\n" + KERNEL, "has no parameter `w`"),
        ("// optiml: rows = height\n" + KERNEL, "unknown name `height`"),
    ],
)
def test_what_the_signature_refuses(text: str, message: str) -> None:
    failure = failure_of(text)
    assert message in failure.message
    assert failure.line is not None


def test_one_bad_item_does_not_hide_the_others() -> None:
    unit = unit_of("// optiml: rows = , cols = 4, x[: normal\n" + KERNEL)
    declaration = parse_declaration(unit.source.text, unit.kernels[0])
    assert [write_item(item) for item in declaration.items] == ["cols = 4"]
    assert len(declaration.failures) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("// optiml: rows = 3\n\n// A note.\n" + KERNEL, 1),
        ("/* A note\n * of two lines */\n// optiml: rows = 3\n" + KERNEL, 1),
        ("// OptiML: rows = 3\n" + KERNEL, 1),
        ("  //optiml:rows = 3\r\n" + KERNEL, 1),
        ("// optiml: rows = 3\nint other;\n" + KERNEL, 0),
        ("// optiml: rows = 3\ntemplate <typename T>\n" + KERNEL, 1),
    ],
)
def test_which_lines_count(text: str, found: int) -> None:
    unit = unit_of(text)
    declaration = parse_declaration(unit.source.text, unit.kernels[0])
    assert len(declaration.items) == found


def test_a_comment_that_is_almost_a_declaration_is_a_problem() -> None:
    workload = workload_of("// optiml rows = 3\n" + WHOLE + KERNEL)
    assert [problem.line for problem in workload.problems] == [1]
    assert "is none" in workload.problems[0].message


# ---------------------------------------------------------------------------------------- TOML

TOML = """
[f]
rows = 1024
cols = "2 * rows"
eps = 1e-5
"x[rows * cols]" = "normal(0, 1)"
"y[rows * cols]" = ""
block = [32, 8]
grid = ["ceil_div(cols, 32)", "ceil_div(rows, 8)"]
shared = "4 * cols"
require = ["cols % 4 == 0", "rows > 0"]

[[f.launch]]
rows = 64
cols = 100000

[other]
rows = 1
"""


def test_a_declaration_above_something_else_is_a_problem() -> None:
    text = (
        "// optiml: n = 4\n"
        "__device__ int twice(int v) { return 2 * v; }\n"
        "__global__ void f(float* x, int n) { x[twice(n)] = 0; }\n"
        "// optiml: n = 8\n"
        "__global__ void g(float* x, int n) {}\n"
    )
    unit = unit_of(text)
    problems = {kernel.name: find_workload(unit, kernel).problems for kernel in unit.kernels}
    found = [one for one in problems["f"] if "above no kernel" in one.message]
    assert [(one.line, one.cure) for one in found] == [(1, "move it directly above `f`")]
    assert not any("above no kernel" in one.message for one in problems["g"])


def test_toml_has_the_same_items() -> None:
    declared = workload_of(KERNEL, TOML)
    same = WHOLE.replace("cols = 4096", "cols = 2 * rows").replace("== 0\n", "== 0, require rows > 0\n")
    comment = workload_of(same + KERNEL)
    assert set(declared.items) == set(comment.items)
    assert declared.launches == comment.launches
    assert declared.failures == ()


def test_a_toml_item_replaces_the_comments() -> None:
    launch = launch_of(WHOLE + KERNEL, "[f]\nrows = 8\n")
    assert launch.names["rows"] == 8
    assert launch.names["cols"] == 4096


def test_toml_struct_members_and_types() -> None:
    kernel = "struct P { int n; };\ntemplate <typename T> __global__ void f(T* x, P p) {}\n"
    declaration = parse_declaration(kernel, kernel_of(kernel), '[f]\nT = "double"\np.n = 3\nx = "normal"\n')
    assert [write_item(item) for item in declaration.items] == ["T = double", "p.n = 3", "x: normal"]
    assert declaration.failures == ()


@pytest.mark.parametrize(
    ("toml", "line", "part"),
    [
        ("[f\nrows = 1", 1, "not valid TOML"),
        ("[f]\nrows = 1\ncols = [1, {a = 2}]", 3, "a value of a kind that no item has"),
        ('[f]\nrows = 1\ncols = "2 *"', 3, "expected a number"),
        ('[other]\ncols = 3\n[f]\n"x[rows" = "normal"', 4, "expected `]`"),
        ("f = 3", 1, "must be a table"),
        ("[f]\nlaunch = 3", 2, "must be a list of tables"),
    ],
)
def test_toml_errors_name_their_line(toml: str, line: int, part: str) -> None:
    failure = failure_of(KERNEL, toml)
    assert part in failure.message
    assert (failure.file, failure.line) == ("workload.toml", line)


# ----------------------------------------------------------------------------------- round trip

names = st.sampled_from(["rows", "cols", "tile", "d.n"])
numbers = st.one_of(st.integers(0, 1 << 30), st.floats(0, 1e9, allow_nan=False)).map(Number)
leaves: st.SearchStrategy[Expression] = st.one_of(names.map(Name), numbers)
expressions: st.SearchStrategy[Expression] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from("+-*/%"), inner, inner),
        st.builds(Call, st.just("ceil_div"), st.tuples(inner, inner)),
    ),
    max_leaves=5,
)


@st.composite
def contents(draw: st.DrawFn) -> Content:
    kind = draw(st.sampled_from(sorted(CONTENTS)))
    least, most = CONTENTS[kind]
    count = draw(st.sampled_from(sorted({least, most})))
    return Content(kind, tuple(draw(expressions) for _ in range(count)))


items_drawn: st.SearchStrategy[Item] = st.one_of(
    st.builds(Scalar, names, expressions),
    st.builds(TypeArgument, st.just("Real"), st.sampled_from(["double", "unsigned int", "pair<int, half>"])),
    st.builds(Buffer, st.sampled_from(["x", "y"]), st.none() | expressions, st.none() | contents()),
    st.builds(Shape, st.sampled_from(["grid", "block"]), st.lists(expressions, min_size=1, max_size=3).map(tuple)),
    st.builds(SharedMemory, expressions),
    st.builds(Requirement, expressions, st.sampled_from(RELATIONS), expressions),
)
declarations = st.lists(items_drawn, max_size=9, unique_by=item_key).map(tuple)


@given(declarations, st.lists(declarations.filter(bool), max_size=3).map(tuple))
def test_canonical_text_reads_back_to_the_same(items: tuple[Item, ...], launches: tuple[tuple[Item, ...], ...]) -> None:
    text = text_of(items, ((), *launches))
    kernel = "template <typename Real> __global__ void f(const Real* x, Real* y, int rows, int cols, D d) {}\n"
    unit = unit_of(text + "\n" + kernel)
    declaration = parse_declaration(unit.source.text, unit.kernels[0])
    assert declaration.failures == ()
    assert sorted(declaration.items, key=item_key) == sorted(items, key=item_key)
    assert declaration.launches == launches


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=80))
def test_any_line_is_read_without_a_traceback(line: str) -> None:
    items, failures = read_items(line, Place("k.cu", 1, 1))
    for failure in failures:
        assert isinstance(failure, Failure)
        assert failure.column is not None
        assert 1 <= failure.column <= len(line) + 1
    for item in items:
        assert read_items(write_item(item))[0] == (item,)
