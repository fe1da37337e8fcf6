"""Values of host expressions: a number with the expression it came from, extents, pointers, lists, or unknown."""

from __future__ import annotations

import math
from typing import Literal

from attrs import evolve, frozen

from optiml_core.workload.expression import LARGEST, Binary, Call, Expression, Name, Negation, Number, names_in, negated
from optiml_core.workload.expression import Value as Scalar

RootKind = Literal["variable", "macro", "loop", "choice", "guess"]


@frozen
class Root:
    """A named number that other values are computed from: where the expressions of an inference end.

    ``key`` is unique and is the name in expressions until it is renamed. ``note`` says what was guessed or chosen,
    if it was; ``line`` is of ``file``.
    """

    key: str
    name: str
    value: Scalar
    kind: RootKind
    line: int | None = None
    note: str = ""
    file: str | None = None
    choices: tuple[Scalar, ...] = ()  # of a "choice": all the values that the program goes through


@frozen
class Quantity:
    """A number and its expression over root keys. ``ratio``: numerator and divisor of a floating division of
    whole numbers, so that rounding it can be written as integer arithmetic. ``hidden``: roots that the value came
    from and that the expression does not show, since the language cannot express how."""

    expression: Expression
    value: Scalar
    is_float: bool = False
    ratio: tuple[Quantity, Quantity] | None = None
    hidden: frozenset[str] = frozenset()


@frozen
class Extents:
    """A `dim3`."""

    x: Quantity
    y: Quantity
    z: Quantity

    def axes(self) -> tuple[Quantity, Quantity, Quantity]:
        return self.x, self.y, self.z


@frozen
class Allocation:
    """Memory of ``bytes``, or of ``count`` elements of ``type``; ``path`` is the variable that first held it.
    ``function`` and ``start``: where it was allocated."""

    path: str
    bytes: Quantity | None
    count: Quantity | None
    type: str
    line: int | None
    function: str = ""


@frozen
class Pointer:
    """``offset`` elements into an allocation. ``paths``: the variables it went through, the last one first."""

    allocation: Allocation
    offset: Quantity
    paths: tuple[str, ...] = ()


@frozen
class Listing:
    """An array or a list with known values."""

    values: tuple[HostValue, ...]


@frozen
class Unknown:
    """A value that the text does not give, and why."""

    reason: str
    line: int | None = None


HostValue = Quantity | Extents | Pointer | Listing | Unknown


def number(value: Scalar) -> Quantity:
    return Quantity(Number(value), value, isinstance(value, float))


def of_root(root: Root) -> Quantity:
    return Quantity(Name(root.key), root.value, isinstance(root.value, float))


def is_constant(quantity: Quantity) -> bool:
    """Whether no root is behind the quantity."""
    return isinstance(quantity.expression, Number)


def extents_of(values: list[Quantity]) -> Extents:
    x, y, z = [*values, number(1), number(1), number(1)][:3]
    return Extents(x, y, z)


def roots_behind(*quantities: Quantity) -> frozenset[str]:
    """Every root that the quantities came from."""
    return frozenset().union(*(one.hidden | names_in(one.expression) for one in quantities))


def plain_number(value: Scalar, *sources: Quantity) -> Quantity:
    """A value that came from ``sources`` in a way that the language cannot express."""
    return evolve(number(int(value) if isinstance(value, bool) else value), hidden=roots_behind(*sources))


def combine(operator: str, left: Quantity, right: Quantity) -> Quantity | Unknown:
    """The result of a C++ binary operator on two numbers."""
    try:
        value = _binary_value(operator, left, right)
    except (ZeroDivisionError, OverflowError, ValueError):
        return Unknown(f"`{operator}` has no value here")
    if isinstance(value, bool) or operator in ("&", "|", "^"):
        return plain_number(int(value), left, right)
    is_float = left.is_float or right.is_float
    if is_constant(left) and is_constant(right):
        folded = plain_number(float(value) if is_float else value, left, right)
        return _with_ratio(folded, operator, left, right, is_float)
    if operator not in ("+", "-", "*", "/", "%", "<<", ">>"):
        return plain_number(value, left, right)
    first = left.expression
    if operator == "/" and is_float:
        # The language divides whole numbers as C++ does: make the dividend a double as the source did.
        first = Binary("*", first, Number(1.0))
    hidden = left.hidden | right.hidden
    result = Quantity(Binary(operator, first, right.expression), value, is_float, hidden=hidden)
    return _with_ratio(result, operator, left, right, is_float)


def _with_ratio(result: Quantity, operator: str, left: Quantity, right: Quantity, is_float: bool) -> Quantity:
    whole = left.value == int(left.value) and right.value == int(right.value)
    if operator == "/" and is_float and whole:
        return evolve(result, ratio=(as_integer(left), as_integer(right)))
    return result


def _binary_value(operator: str, left: Quantity, right: Quantity) -> Scalar | bool:
    a, b = left.value, right.value
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "<":
            return a < b
        case ">":
            return a > b
        case "<=":
            return a <= b
        case ">=":
            return a >= b
        case "==":
            return a == b
        case "!=":
            return a != b
        case "&&":
            return bool(a) and bool(b)
        case "||":
            return bool(a) or bool(b)
    if operator == "/" and (left.is_float or right.is_float):
        return a / b
    first, second = int(a), int(b)
    match operator:
        case "/":
            quotient = abs(first) // abs(second)
            return quotient if (first < 0) == (second < 0) else -quotient
        case "%":
            return int(math.fmod(first, second)) if abs(first) < LARGEST else first % second
        case "<<":
            return first << second if 0 <= second < 64 else 0
        case ">>":
            return first >> second if 0 <= second < 64 else 0
        case "&":
            return first & second
        case "|":
            return first | second
        case "^":
            return first ^ second
    raise ValueError(operator)


def minus(operand: Quantity) -> Quantity:
    return evolve(operand, expression=negated(operand.expression), value=-operand.value, ratio=None)


def as_float(quantity: Quantity) -> Quantity:
    return evolve(quantity, value=float(quantity.value), is_float=True)


def as_integer(quantity: Quantity) -> Quantity:
    """A conversion to a whole number, which truncates."""
    if not quantity.is_float:
        return quantity
    value = int(quantity.value)
    if quantity.ratio is not None:
        above, below = quantity.ratio
        return Quantity(_quotient("/", above, below), value, hidden=quantity.hidden)
    if value == quantity.value and not _has_float(quantity.expression):
        return Quantity(quantity.expression, value, hidden=quantity.hidden)
    return plain_number(value, quantity)


def rounded_up(quantity: Quantity) -> Quantity:
    """`ceil`: of a division of whole numbers it is ceil_div."""
    value = math.ceil(quantity.value)
    if quantity.ratio is not None:
        above, below = quantity.ratio
        return Quantity(_quotient("ceil_div", above, below), float(value), True, hidden=quantity.hidden)
    if not _has_float(quantity.expression):
        return Quantity(quantity.expression, float(value), True, hidden=quantity.hidden)
    return plain_number(float(value), quantity)


def rounded_down(quantity: Quantity) -> Quantity:
    """`floor` of a number that is not negative."""
    whole = as_integer(quantity)
    return Quantity(whole.expression, float(math.floor(quantity.value)), True, hidden=whole.hidden)


def _quotient(operator: str, above: Quantity, below: Quantity) -> Expression:
    if is_constant(above) and is_constant(below):
        whole, rest = divmod(int(above.value), int(below.value))
        return Number(whole + (1 if rest and operator == "ceil_div" else 0))
    if operator == "/":
        return Binary("/", above.expression, below.expression)
    return Call("ceil_div", (above.expression, below.expression))


def _has_float(expression: Expression) -> bool:
    match expression:
        case Number(value):
            return isinstance(value, float)
        case Name():
            return False
        case Negation(operand):
            return _has_float(operand)
        case Binary(_, left, right):
            return _has_float(left) or _has_float(right)
        case Call(_, arguments):
            return any(_has_float(argument) for argument in arguments)


def called(function: str, values: list[Quantity]) -> Quantity:
    """`min`, `max` or `ceil_div` of numbers."""
    if function == "ceil_div":
        above, below = int(values[0].value), int(values[1].value)
        value: Scalar = -(-above // below) if below else 0
    else:
        value = (min if function == "min" else max)(one.value for one in values)
    if all(is_constant(one) for one in values):
        return plain_number(value, *values)
    hidden = frozenset().union(*(one.hidden for one in values))
    arguments = tuple(one.expression for one in values)
    return Quantity(Call(function, arguments), value, isinstance(value, float), hidden=hidden)
