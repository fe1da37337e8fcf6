"""Expressions of the workload language: parsed, evaluated and written by our own code, never by ``eval``.

Numbers, names, ``+ - * / % << >> ( )`` and ``min``, ``max``, ``ceil_div``. Integers are 64 bits wide and
``/`` and ``%`` truncate towards zero as in C++ when both operands are integers; otherwise arithmetic is
double. Every value, also one on the way, has a magnitude below 2**40.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from attrs import field, frozen

from optiml_core.records import Failure

Value = int | float

LARGEST = 1 << 40
FUNCTIONS = ("min", "max", "ceil_div")
MAXIMUM_DEPTH = 60
MAXIMUM_TOKENS = 2000


def _typed(value: Value) -> tuple[str, str]:
    # repr tells 0.0 from -0.0 and 1 from 1.0, which plain equality does not.
    return type(value).__name__, repr(value)


@frozen
class Number:
    value: Value = field(eq=_typed)


@frozen
class Name:
    """A scalar argument, a struct member ``d.n``, a helper name, or ``grid.x`` where the caller offers it."""

    text: str
    column: int = field(default=1, eq=False)


@frozen
class Negation:
    operand: Expression


@frozen
class Binary:
    operator: str
    left: Expression
    right: Expression
    column: int = field(default=1, eq=False)


@frozen
class Call:
    function: str
    arguments: tuple[Expression, ...]
    column: int = field(default=1, eq=False)


Expression = Number | Name | Negation | Binary | Call

PRECEDENCE = {"<<": 1, ">>": 1, "+": 2, "-": 2, "*": 3, "/": 3, "%": 3}

# ------------------------------------------------------------------------------------- tokens

_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>0[xX][0-9a-fA-F]+(?:[uUlL]*)|(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:[uUlL]+|[fF])?(?![\w.]))"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<symbol><<|>>|==|!=|<=|>=|::|.)",
    re.DOTALL,
)


@frozen
class Token:
    """``kind``: number, name, symbol or end. ``start`` and ``end`` are offsets into the text."""

    kind: str
    text: str
    start: int
    end: int


class LanguageError(Exception):
    """Raised inside this room only, at an offset of the text; the public functions turn it into a Failure."""

    def __init__(self, message: str, offset: int, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.cure = cure


def tokenize(text: str) -> list[Token]:
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None  # the last alternative takes any character
        kind = str(match.lastgroup)
        if kind == "symbol" and match.group() in "0123456789":
            raise LanguageError("this is not a number", position)
        if kind != "space":
            tokens.append(Token(kind, match.group(), position, match.end()))
        position = match.end()
        if len(tokens) > MAXIMUM_TOKENS:
            raise LanguageError(f"too long: at most {MAXIMUM_TOKENS} tokens", position)
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


@frozen(eq=False)
class Reader:
    """A cursor over tokens. ``column_offset`` turns an offset of the text into a 1-based column."""

    tokens: list[Token]
    column_offset: int = 1
    _at: list[int] = field(factory=lambda: [0])

    @property
    def token(self) -> Token:
        return self.tokens[self._at[0]]

    @property
    def previous_end(self) -> int:
        return self.tokens[self._at[0] - 1].end if self._at[0] else 0

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self._at[0] += 1
        return token

    def is_symbol(self, *texts: str) -> bool:
        return self.token.kind == "symbol" and self.token.text in texts

    def take(self, text: str) -> bool:
        if self.is_symbol(text):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise LanguageError(f"expected `{text}`, found {shown(self.token)}", self.token.start)


def shown(token: Token) -> str:
    return "the end of the line" if token.kind == "end" else f"`{token.text}`"


# ------------------------------------------------------------------------------------- parser


def read_expression(reader: Reader, depth: int = 0) -> Expression:
    """Reads one expression from the cursor; raises LanguageError."""
    return _read_level(reader, 1, depth)


def _read_level(reader: Reader, level: int, depth: int) -> Expression:
    if depth > MAXIMUM_DEPTH:
        raise LanguageError(f"nested too deeply: at most {MAXIMUM_DEPTH} levels", reader.token.start)
    if level > 3:
        return _read_operand(reader, depth)
    left = _read_level(reader, level + 1, depth)
    chain = 0
    while reader.token.kind == "symbol" and PRECEDENCE.get(reader.token.text) == level:
        operator = reader.advance()
        right = _read_level(reader, level + 1, depth)
        left = Binary(operator.text, left, right, operator.start + reader.column_offset)
        chain += 1
        # A left-deep chain nests the tree as well: evaluating it recurses.
        if chain > 200:
            raise LanguageError("too many operators in one expression", operator.start)
    return left


def _read_operand(reader: Reader, depth: int) -> Expression:
    token = reader.token
    if token.kind == "number":
        reader.advance()
        return Number(_number(token))
    if token.kind == "name":
        reader.advance()
        if not reader.is_symbol("("):
            return Name(token.text, token.start + reader.column_offset)
        if token.text not in FUNCTIONS:
            raise LanguageError(
                f"unknown function `{token.text}`", token.start, f"the functions are {', '.join(FUNCTIONS)}"
            )
        return _read_call(reader, token, depth)
    if reader.take("("):
        inner = read_expression(reader, depth + 1)
        reader.expect(")")
        return inner
    if reader.take("-"):
        return negated(_read_level(reader, 4, depth + 1))
    if reader.take("+"):
        return _read_level(reader, 4, depth + 1)
    raise LanguageError(f"expected a number, a name or `(`, found {shown(token)}", token.start)


def _read_call(reader: Reader, name: Token, depth: int) -> Call:
    reader.expect("(")
    arguments = [read_expression(reader, depth + 1)]
    while reader.take(","):
        arguments.append(read_expression(reader, depth + 1))
    reader.expect(")")
    if len(arguments) < 2 or (name.text == "ceil_div" and len(arguments) != 2):
        wanted = "exactly 2 arguments" if name.text == "ceil_div" else "at least 2 arguments"
        raise LanguageError(f"`{name.text}` takes {wanted}", name.start)
    return Call(name.text, tuple(arguments), name.start + reader.column_offset)


def _number(token: Token) -> Value:
    text = token.text
    if text[:2].lower() == "0x":
        value: Value = int(text.rstrip("uUlL"), 16)
    else:
        text = text.rstrip("uUlLfF")
        value = float(text) if any(letter in text for letter in ".eE") else int(text)
    if not abs(value) < LARGEST:
        raise LanguageError("the number is too large: magnitudes stay below 2^40", token.start)
    return value


def negated(operand: Expression) -> Expression:
    """Minus ``operand``; a number is negated at once, so that text and tree correspond one to one."""
    return Number(-operand.value) if isinstance(operand, Number) else Negation(operand)


def parse_expression(
    text: str, file: str | None = None, line: int | None = None, column: int = 1
) -> Expression | Failure:
    """The expression that ``text`` holds. ``line`` and ``column`` (1-based) say where the text begins."""
    try:
        reader = Reader(tokenize(text), column)
        expression = read_expression(reader)
        if reader.token.kind != "end":
            raise LanguageError(f"unexpected {shown(reader.token)} after the expression", reader.token.start)
    except LanguageError as error:
        return Failure("bad-input", error.message, file, line, column + error.offset, error.cure)
    return expression


# ---------------------------------------------------------------------------------- evaluation


def evaluate(expression: Expression, names: Mapping[str, Value] | Callable[[Name], Value]) -> Value | Failure:
    """The value of an expression; a Failure (with the column) for an unknown name, a division by zero,
    an operator that needs integers, or a magnitude of 2**40 or more."""
    try:
        return evaluated(expression, names if callable(names) else _looked_up(names))
    except LanguageError as error:
        return Failure("bad-input", error.message, column=error.offset, cure=error.cure)


def _looked_up(names: Mapping[str, Value]) -> Callable[[Name], Value]:
    def look_up(name: Name) -> Value:
        if name.text not in names:
            raise LanguageError(f"unknown name `{name.text}`", name.column)
        return names[name.text]

    return look_up


def evaluated(expression: Expression, look_up: Callable[[Name], Value]) -> Value:
    """As ``evaluate``, for use inside this room: raises LanguageError with a column as its offset."""
    match expression:
        case Number(value):
            return value
        case Name():
            return look_up(expression)
        case Negation(operand):
            return -evaluated(operand, look_up)
        case Binary(operator, left, right, column):
            return _bounded(_binary(operator, evaluated(left, look_up), evaluated(right, look_up), column), column)
        case Call(function, arguments, column):
            return _bounded(_call(function, [evaluated(one, look_up) for one in arguments], column), column)


def _bounded(value: Value, column: int) -> Value:
    if not abs(value) < LARGEST:  # also true for NaN
        raise LanguageError("the value is too large: magnitudes stay below 2^40", column)
    return value


def _binary(operator: str, left: Value, right: Value, column: int) -> Value:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/" and not (isinstance(left, int) and isinstance(right, int)):
        if right == 0:
            raise LanguageError("division by zero", column)
        return left / right
    first, second = _integers(operator, [left, right], column)
    if operator in ("/", "%"):
        if second == 0:
            raise LanguageError("division by zero", column)
        quotient = abs(first) // abs(second)
        if (first < 0) != (second < 0):
            quotient = -quotient
        return quotient if operator == "/" else first - quotient * second
    if not 0 <= second < 64:
        raise LanguageError(f"cannot shift by {second}", column)
    return first << second if operator == "<<" else first >> second


def _call(function: str, values: list[Value], column: int) -> Value:
    if function == "ceil_div":
        numerator, denominator = _integers(function, values, column)
        if denominator == 0:
            raise LanguageError("division by zero", column)
        return -(-numerator // denominator)
    chosen = min(values) if function == "min" else max(values)
    return float(chosen) if any(isinstance(value, float) for value in values) else chosen


def _integers(operator: str, values: list[Value], column: int) -> list[int]:
    if any(isinstance(value, float) for value in values):
        raise LanguageError(f"`{operator}` needs integers", column)
    return [int(value) for value in values]


# ----------------------------------------------------------------------------- writing and names


def write_expression(expression: Expression) -> str:
    """The text of an expression with no needless parentheses; it parses back to an equal expression."""
    return _write(expression, 0)


def _write(expression: Expression, level: int) -> str:
    match expression:
        case Number(value):
            return repr(value)
        case Name(text):
            return text
        case Negation(operand):
            return "-" + _write(operand, 4)
        case Call(function, arguments):
            return f"{function}({', '.join(_write(argument, 0) for argument in arguments)})"
        case Binary(operator, left, right):
            own = PRECEDENCE[operator]
            text = f"{_write(left, own)} {operator} {_write(right, own + 1)}"
            return f"({text})" if own < level else text


def names_in(expression: Expression) -> frozenset[str]:
    """Every name that occurs in an expression."""
    match expression:
        case Number():
            return frozenset()
        case Name(text):
            return frozenset((text,))
        case Negation(operand):
            return names_in(operand)
        case Binary(_, left, right):
            return names_in(left) | names_in(right)
        case Call(_, arguments):
            return frozenset().union(*(names_in(argument) for argument in arguments))


def replace_names(expression: Expression, replace: Callable[[Name], Expression]) -> Expression:
    """A copy of the expression with every name replaced by what ``replace`` gives for it."""
    match expression:
        case Number():
            return expression
        case Name():
            return replace(expression)
        case Negation(operand):
            return negated(replace_names(operand, replace))
        case Binary(operator, left, right, column):
            return Binary(operator, replace_names(left, replace), replace_names(right, replace), column)
        case Call(function, arguments, column):
            return Call(function, tuple(replace_names(argument, replace) for argument in arguments), column)
