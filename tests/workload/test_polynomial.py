"""Simplifying lengths: the value never changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.records import Failure
from optiml_core.workload.expression import (
    Binary,
    Call,
    Expression,
    Name,
    Number,
    evaluate,
    parse_expression,
    write_expression,
)
from optiml_core.workload.inference.polynomial import (
    divided_exactly,
    expression_of,
    polynomial_of,
    simplified,
    tidied,
)


def parsed(text: str) -> Expression:
    expression = parse_expression(text)
    assert not isinstance(expression, Failure)
    return expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(n + 255) / 256", "ceil_div(n, 256)"),
        ("(255 + n) / 256", "ceil_div(n, 256)"),
        ("(n + b - 1) / b", "ceil_div(n, b)"),
        ("(n - 1 + b) / b", "ceil_div(n, b)"),
        ("(n - 1) / 256 + 1", "ceil_div(n, 256)"),
        ("(rows * cols + 255) / 256", "ceil_div(cols * rows, 256)"),
        ("(n + 254) / 256", "(n + 254) / 256"),
        ("n / 256", "n / 256"),
        ("n / 256 + 1", "n / 256 + 1"),
        ("n * 1 + 0", "n"),
        ("4 * 256", "1024"),
    ],
)
def test_simplified(text: str, expected: str) -> None:
    assert write_expression(simplified(parsed(text))) == expected


@pytest.mark.parametrize(
    ("text", "divisor", "expected"),
    [
        ("n * 4", 4, "n"),
        ("4 * n * m", 4, "n * m"),
        ("8 * n + 4", 4, "2 * n + 1"),
        ("n * 6", 4, None),
        ("n + 4", 4, None),
        ("(n + 1) * 4", 4, "n + 1"),
        ("1024", 4, "256"),
    ],
)
def test_divided_exactly(text: str, divisor: int, expected: str | None) -> None:
    divided = divided_exactly(parsed(text), divisor)
    assert (None if divided is None else write_expression(divided)) == expected


leaves: st.SearchStrategy[Expression] = st.one_of(
    st.sampled_from(["n", "m", "b"]).map(Name), st.integers(0, 300).map(Number)
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "%"]), inner, inner),
        st.builds(Call, st.sampled_from(["min", "max", "ceil_div"]), st.tuples(inner, inner)),
    ),
    max_leaves=7,
)
values = st.fixed_dictionaries({name: st.integers(1, 60) for name in ("n", "m", "b")})


@given(expressions, values)
def test_rewriting_keeps_the_value(expression: Expression, names: dict[str, int]) -> None:
    before = evaluate(expression, names)
    polynomial = polynomial_of(expression)
    assert polynomial is not None
    for after in (tidied(expression), expression_of(polynomial)):
        result = evaluate(after, names)
        assert isinstance(before, Failure) or isinstance(result, Failure) or result == before


@given(st.integers(1, 10**6), st.integers(1, 2000))
def test_recognised_roundings_are_exact_for_positive_sizes(size: int, block: int) -> None:
    for text in ("(n + b - 1) / b", "(n - 1) / b + 1"):
        names = {"n": size, "b": block}
        assert evaluate(simplified(parsed(text)), names) == evaluate(parsed(text), names) == -(-size // block)
