"""The workload language's expressions: values, errors with their column, and text that reads back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.records import Failure
from optiml_core.workload.expression import (
    FUNCTIONS,
    LARGEST,
    PRECEDENCE,
    Binary,
    Call,
    Expression,
    Name,
    Number,
    evaluate,
    names_in,
    negated,
    parse_expression,
    write_expression,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("0x10", 16),
        ("1e3", 1000.0),
        ("1.5f", 1.5),
        (".5", 0.5),
        ("64u", 64),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 / -2", -3),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("7.0 / 2", 3.5),
        ("7 / 2 * 2.0", 6.0),
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("10 - 3 - 2", 5),
        ("100 / 10 / 5", 2),
        ("1 << 20", 1 << 20),
        ("1 + 1 << 3", 16),
        ("-16 >> 2", -4),
        ("- - 3", 3),
        ("+3", 3),
        ("min(3, 1, 2)", 1),
        ("max(3, 1.5)", 3.0),
        ("ceil_div(10, 4)", 3),
        ("ceil_div(-10, 4)", -2),
        ("ceil_div(n, 256)", 5),
        ("n * d.rows", 3750),
        ("(n + 255) / 256", 5),
    ],
)
def test_value(text: str, value: float) -> None:
    expression = parse_expression(text)
    assert not isinstance(expression, Failure), expression
    result = evaluate(expression, {"n": 1250, "d.rows": 3})
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "column", "part"),
    [
        ("", 1, "the end of the line"),
        ("1 +", 4, "the end of the line"),
        ("(1 + 2", 7, "expected `)`"),
        ("1 2", 3, "unexpected `2`"),
        ("n n", 3, "unexpected `n`"),
        ("__import__('os')", 1, "unknown function `__import__`"),
        ("sqrt(2, 3)", 1, "unknown function `sqrt`"),
        ("min(1)", 1, "at least 2"),
        ("2 * ceil_div(1, 2, 3)", 5, "exactly 2"),
        ("a ** b", 4, "found `*`"),
        ("a ? b : c", 3, "unexpected `?`"),
        ("'a'", 1, "found `'`"),
        ("1099511627776", 1, "too large"),
        ("2 + 1e300", 5, "too large"),
        ("12abc", 1, "not a number"),
        ("x[3]", 2, "unexpected `[`"),
        ("(" * 100 + "1" + ")" * 100, 62, "too deeply"),
        ("-" * 100 + "1", 62, "too deeply"),
        ("+".join("1" * 500), 402, "too many operators"),
    ],
)
def test_syntax_error_points_at_the_column(text: str, column: int, part: str) -> None:
    failure = parse_expression(text, "k.cu", 7, 10)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.file, failure.line, failure.column) == ("bad-input", "k.cu", 7, 9 + column)
    assert part in failure.message


@pytest.mark.parametrize(
    ("text", "column", "part"),
    [
        ("1 / 0", 3, "division by zero"),
        ("n % (n - n)", 3, "division by zero"),
        ("2.0 / 0", 5, "division by zero"),
        ("ceil_div(n, 0)", 1, "division by zero"),
        ("n + missing", 5, "unknown name `missing`"),
        ("2.5 % 2", 5, "needs integers"),
        ("1 << 2.0", 3, "needs integers"),
        ("1 << 64", 3, "cannot shift"),
        ("1 << -1", 3, "cannot shift"),
        ("1 << 40", 3, "too large"),
        ("n * 1000000000", 3, "too large"),
        # Also a value on the way: the result alone would fit.
        ("n * 1000000000 / 1000000000", 3, "too large"),
    ],
)
def test_evaluation_error_points_at_the_column(text: str, column: int, part: str) -> None:
    expression = parse_expression(text)
    assert not isinstance(expression, Failure)
    failure = evaluate(expression, {"n": 5000})
    assert isinstance(failure, Failure)
    assert part in failure.message
    assert failure.column == column


names = st.sampled_from(["n", "rows", "cols", "d.n", "grid.x", "minimum", "_a1"])
whole = st.integers(-LARGEST + 1, LARGEST - 1)
real = st.floats(-1e12, 1e12, allow_nan=False).filter(lambda value: abs(value) < LARGEST)
leaves: st.SearchStrategy[Expression] = st.one_of(names.map(Name), whole.map(Number), real.map(Number))


def trees(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        children.map(negated),
        st.builds(Binary, st.sampled_from(sorted(PRECEDENCE)), children, children),
        st.builds(Call, st.sampled_from(["min", "max"]), st.lists(children, min_size=2, max_size=3).map(tuple)),
        st.builds(Call, st.just("ceil_div"), st.tuples(children, children)),
    )


expressions = st.recursive(leaves, trees, max_leaves=12)


@given(expressions)
def test_text_reads_back(expression: Expression) -> None:
    text = write_expression(expression)
    assert parse_expression(text) == expression
    assert not names_in(expression) & set(FUNCTIONS)


@given(st.text(max_size=40))
def test_any_text_gives_a_value_or_a_failure(text: str) -> None:
    expression = parse_expression(text)
    if isinstance(expression, Failure):
        assert expression.column is not None
        assert 1 <= expression.column <= len(text) + 1
        return
    result = evaluate(expression, {})
    assert isinstance(result, Failure) or abs(result) < LARGEST


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6).filter(bool))
def test_integer_division_is_that_of_c(left: int, right: int) -> None:
    """C++: the quotient is truncated, and (a / b) * b + a % b == a."""
    values = {"a": left, "b": right}
    quotient, rest = (evaluate(Binary(one, Name("a"), Name("b")), values) for one in "/%")
    assert isinstance(quotient, int)
    assert isinstance(rest, int)
    assert quotient * right + rest == left
    assert abs(rest) < abs(right)
    assert rest == 0 or (rest < 0) == (left < 0)
