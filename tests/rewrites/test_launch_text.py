"""Launch expressions: reading, folding, composing, and writing them for host code."""

from __future__ import annotations

import pytest

from optiml_core.records import LaunchChange
from optiml_core.rewrites import Refusal, compose
from optiml_core.rewrites.launch_text import host_text, is_primary, read
from optiml_core.workload.expression import write_expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ceil_div(n, 1)", "n"),
        ("ceil_div(100, 32)", "4"),
        ("(int)n + 0", "n"),
        ("blockDim.x * gridDim.y", "block.x * grid.y"),
        ("n * 1 / 1", "n"),
        ("min(4, 7) * 3", "12"),
        ("(size_t)rows * cols", "rows * cols"),
        ("7 % 4 - 1", "2"),
    ],
)
def test_read_folds(text: str, expected: str) -> None:
    parsed = read(text)
    assert not isinstance(parsed, Refusal)
    assert write_expression(parsed) == expected


@pytest.mark.parametrize("text", ["x[3]", "foo(n)", "a ? b : c", "*n", "n &&"])
def test_read_refuses_what_no_launch_can_say(text: str) -> None:
    assert isinstance(read(text), Refusal)


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("ceil_div(n, 32)", {"n": "n"}, "(n + 31) / 32"),
        ("ceil_div(n, 32) * 2", {"n": "n"}, "(n + 31) / 32 * 2"),
        ("2 * ceil_div(n, 32)", {"n": "n"}, "2 * ((n + 31) / 32)"),
        ("ceil_div(n, block.x)", {"n": "a + b", "block.x": "threads"}, "(a + b + threads - 1) / threads"),
        ("n * 4", {"n": "rows * cols"}, "rows * cols * 4"),
        ("n * 4", {"n": "f(x)[2]"}, "f(x)[2] * 4"),
        ("min(n, 65535)", {"n": "n"}, "(n < 65535 ? n : 65535)"),
        ("max(grid.x, 1) + 1", {"grid.x": "grid.x"}, "(grid.x > 1 ? grid.x : 1) + 1"),
        ("a - (b - c)", {"a": "a", "b": "b", "c": "c"}, "a - (b - c)"),
    ],
)
def test_host_text(text: str, names: dict[str, str], expected: str) -> None:
    parsed = read(text)
    assert not isinstance(parsed, Refusal)
    assert host_text(parsed, names.__getitem__) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [("n", True), ("p->n", True), ("f(a, b)", True), ("(a + b)", True), ("a + b", False), ("(a) + (b)", False)],
)
def test_is_primary(code: str, expected: bool) -> None:
    assert is_primary(code) is expected


def test_compose_reads_the_earlier_launch() -> None:
    first = LaunchChange(grid=("ceil_div(n, 4)", "grid.y", "1"), block=("64", "1", "1"))
    then = LaunchChange(
        grid=("min(grid.x, 8)", "1", "1"), block=("block.x * 2", "block.y", "block.z"), shared="4 * block.x"
    )
    assert compose(first, then) == LaunchChange(
        grid=("min(ceil_div(n, 4), 8)", "1", "1"), block=("128", "1", "1"), shared="256"
    )


def test_compose_with_nothing_changes_nothing() -> None:
    change = LaunchChange(grid=("n", "1", "1"), shared="8")
    assert compose(LaunchChange(), change) == change
    assert compose(change, LaunchChange()) == change
