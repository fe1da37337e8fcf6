"""Polynomials over names, for simplifying lengths and for bounds of indexes.

A polynomial maps a monomial (its atoms, sorted by their text, with repetition) to a whole coefficient. An
atom is a name or an expression that is no polynomial, such as a quotient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optiml_core.workload.expression import (
    Binary,
    Call,
    Expression,
    Name,
    Negation,
    Number,
    negated,
    write_expression,
)

Monomial = tuple[Expression, ...]
Polynomial = dict[Monomial, int]

# Expanding a product of sums can grow without bound; beyond this the expression is left as it is.
MOST_TERMS = 64


def constant(value: int) -> Polynomial:
    return {(): value} if value else {}


def atom(expression: Expression) -> Polynomial:
    return {(expression,): 1}


def added(left: Polynomial, right: Polynomial, factor: int = 1) -> Polynomial:
    """left + factor * right"""
    total = dict(left)
    for monomial, coefficient in right.items():
        total[monomial] = total.get(monomial, 0) + factor * coefficient
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def multiplied(left: Polynomial, right: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for first, one in left.items():
        for second, other in right.items():
            monomial = tuple(sorted(first + second, key=write_expression))
            total[monomial] = total.get(monomial, 0) + one * other
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def polynomial_of(expression: Expression) -> Polynomial | None:
    """The polynomial of a whole-number expression; None with a double in it, or where it grows too large."""
    match expression:
        case Number(value):
            return constant(value) if isinstance(value, int) else None
        case Name() | Call():
            return atom(expression)
        case Negation(operand):
            inner = polynomial_of(operand)
            return None if inner is None else added({}, inner, -1)
        case Binary(operator, left, right):
            first, second = polynomial_of(left), polynomial_of(right)
            if first is None or second is None:
                return None
            if operator == "+":
                return added(first, second)
            if operator == "-":
                return added(first, second, -1)
            if operator == "*" and len(first) * len(second) <= MOST_TERMS:
                return multiplied(first, second)
            if operator == "<<" and set(second) <= {()} and 0 <= second.get((), 0) < 40:
                return multiplied(first, constant(1 << second.get((), 0)))
            return atom(expression)


def expression_of(polynomial: Polynomial) -> Expression:
    """The expression of a polynomial: products first, the constant last, in a fixed order."""
    if not polynomial:
        return Number(0)
    terms = sorted(polynomial.items(), key=lambda term: (-len(term[0]), term[1] < 0))
    total: Expression | None = None
    for monomial, coefficient in terms:
        term = _product(monomial, abs(coefficient) if total is not None else coefficient)
        total = term if total is None else Binary("-" if coefficient < 0 else "+", total, term)
    assert total is not None
    return total


def _product(monomial: Monomial, coefficient: int) -> Expression:
    if not monomial:
        return Number(coefficient)
    product: Expression | None = None if coefficient in (1, -1) else Number(coefficient)
    for factor in monomial:
        product = factor if product is None else Binary("*", product, factor)
    assert product is not None
    return negated(product) if coefficient == -1 else product


def divided_exactly(expression: Expression, divisor: int) -> Expression | None:
    """The expression divided by ``divisor`` where that leaves no rest whatever the names are; else None."""
    if divisor == 1:
        return expression
    factored = _without_factor(expression, divisor)
    if factored is not None:
        return factored
    polynomial = polynomial_of(expression)
    if polynomial is None or any(coefficient % divisor for coefficient in polynomial.values()):
        return None
    return expression_of({monomial: coefficient // divisor for monomial, coefficient in polynomial.items()})


def _without_factor(expression: Expression, factor: int) -> Expression | None:
    """The expression without one literal factor of that value: keeps the form that the source gave it."""
    match expression:
        case Number(value) if isinstance(value, int) and value % factor == 0:
            return Number(value // factor)
        case Binary("*", left, right):
            shorter = _without_factor(left, factor)
            if shorter is not None:
                return right if shorter == Number(1) else Binary("*", shorter, right)
            shorter = _without_factor(right, factor)
            if shorter is not None:
                return left if shorter == Number(1) else Binary("*", left, shorter)
    return None


def simplified(expression: Expression) -> Expression:
    """The expression with quotients that round up written as ``ceil_div``, and constants folded."""
    match expression:
        case Binary(operator, left, right, column):
            first, second = simplified(left), simplified(right)
            if operator == "/":
                rounded = _rounding_up(first, second)
                if rounded is not None:
                    return rounded
            if operator == "+" and second == Number(1):
                rounded = _one_more(first)
                if rounded is not None:
                    return rounded
            return _folded(operator, first, second, column)
        case Call(function, arguments, column):
            return Call(function, tuple(simplified(argument) for argument in arguments), column)
        case Negation(operand):
            return negated(simplified(operand))
    return expression


def tidied(expression: Expression) -> Expression:
    """The expression, or its sum of products where that is shorter (`a * b + c - c` is `a * b`)."""
    polynomial = polynomial_of(expression)
    if polynomial is None:
        return expression
    other = expression_of(polynomial)
    return other if len(write_expression(other)) < len(write_expression(expression)) else expression


def _folded(operator: str, left: Expression, right: Expression, column: int) -> Expression:
    if operator == "*" and Number(1) in (left, right):
        return right if left == Number(1) else left
    if operator in ("+", "-") and right == Number(0):
        return left
    if operator == "+" and left == Number(0):
        return right
    if operator == "/" and right == Number(1):
        return left
    if isinstance(left, Number) and isinstance(right, Number):
        first, second = left.value, right.value
        if isinstance(first, int) and isinstance(second, int):
            folded = {"+": first + second, "-": first - second, "*": first * second}.get(operator)
            if folded is not None and abs(folded) < 1 << 40:
                return Number(folded)
    return Binary(operator, left, right, column)


def _rounding_up(numerator: Expression, divisor: Expression) -> Expression | None:
    """(a + b - 1) / b, however its numerator is written, is ceil_div(a, b)."""
    above, below = polynomial_of(numerator), polynomial_of(divisor)
    if above is None or below is None or divisor == Number(1):
        return None
    rest = added(added(above, below, -1), constant(1))
    # What is left must be free of the divisor's terms, or a plain multiple of names: else it was no rounding.
    if not rest or () in rest or any(coefficient < 0 for coefficient in rest.values()):
        return None
    if () in below:
        if above.get((), 0) != below[()] - 1:
            return None
    elif any(monomial in rest for monomial in below):
        return None
    return Call("ceil_div", (expression_of(rest), divisor))


def _one_more(quotient: Expression) -> Expression | None:
    """(a - 1) / b + 1 is ceil_div(a, b) for positive a."""
    if isinstance(quotient, Binary) and quotient.operator == "/":
        above = polynomial_of(quotient.left)
        if above is not None and above.get((), 0) == -1 and len(above) > 1:
            return Call("ceil_div", (expression_of(added(above, constant(1))), quotient.right))
    return None


def largest(polynomial: Polynomial, bound: Callable[[Expression], Polynomial | None]) -> Polynomial | None:
    """An upper bound: atoms with a ``bound`` are replaced by it where their coefficient is positive, and by
    zero, their least value, where it is negative. None where one cannot be bounded. Names are taken as positive."""
    total: Polynomial = {}
    for monomial, coefficient in polynomial.items():
        product = constant(coefficient)
        for factor in monomial:
            upper = bound(factor)
            if upper is None:
                return None
            is_plain = upper == atom(factor)
            if coefficient < 0 and not is_plain:
                product = {}
                break
            product = multiplied(product, upper)
        total = added(total, product)
        if len(total) > MOST_TERMS:
            return None
    return total


def substituted(polynomial: Polynomial, values: Mapping[Expression, Polynomial]) -> Polynomial:
    """Every atom that ``values`` names replaced by its polynomial."""
    total: Polynomial = {}
    for monomial, coefficient in polynomial.items():
        product = constant(coefficient)
        for factor in monomial:
            product = multiplied(product, values.get(factor, atom(factor)))
        total = added(total, product)
    return total
