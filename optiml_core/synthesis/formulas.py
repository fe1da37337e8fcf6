"""Formulas in a description: ``y[i] = 0.5 * x[i - 1] + |z[order[i]]|``, ``C[i][j] = sum over k of A[i][k] * B[k][j]``.

Grammar (recursive descent over the tokens of the text; a formula ends where no rule continues it):
``choice = sum [(<|>|<=|>=|==|!=) sum ? choice : choice]``, ``sum = product {(+|-) product}``,
``product = unary {(*|/|%) unary}``, ``unary = - unary | power``, ``power = atom [(^|**) unary]``,
``atom = number | name {[ sum {, sum} ]} | function ( choice {, choice} ) | ( choice ) | |sum| | fold``,
``fold = (sum|max|min) over name of product``. A fold that ``+`` or ``-`` follows is not read: it has two readings.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import frozen

TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.?\d*[eE][+-]?\d+f?\b|\d+\.\d+f?\b|\d+\.f|\d+|\.\d+f?\b|\*\*|[<>=!]=|\S")


@frozen
class Number:
    text: str


@frozen
class Name:
    name: str


@frozen
class Load:
    """An element of an array."""

    array: str
    indices: tuple[Expression, ...]


@frozen
class Operation:
    """``+ - * / % ^``, or ``neg`` with one operand."""

    operator: str
    operands: tuple[Expression, ...]


@frozen
class Call:
    function: str
    arguments: tuple[Expression, ...]


@frozen
class Choice:
    """``left OPERATOR right ? yes : no``."""

    operator: str
    left: Expression
    right: Expression
    yes: Expression
    no: Expression


@frozen
class Fold:
    """``sum``, ``max`` or ``min`` of ``body`` over ``index``; ``extent`` is found later, from the arrays' shapes."""

    operator: str
    index: str
    body: Expression
    extent: str = ""


Expression = Number | Name | Load | Operation | Call | Choice | Fold


@frozen
class Formula:
    """``target[indices] = value``; ``indices`` empty for a formula over whole arrays. ``adds``: ``+=``."""

    target: str
    indices: tuple[Expression, ...]
    value: Expression
    start: int  # first token
    end: int  # behind the last token
    adds: bool = False


# Functions of one argument; and those of two.
_UNARY_FUNCTIONS_TEXT = (
    "exp log ln sqrt sin cos tan tanh sinh cosh abs fabs floor ceil atan asin acos log2 log10 log1p expm1 erf "
    "cbrt rsqrt relu sigmoid silu swish exp2 expf logf sqrtf sinf cosf tanhf fabsf erff rsqrtf"
)
UNARY_FUNCTIONS = _UNARY_FUNCTIONS_TEXT.split()
BINARY_FUNCTIONS = ["max", "min", "pow", "fmax", "fmin", "fmaxf", "fminf", "powf"]
COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")
FOLDS = ("sum", "max", "min")


def tokenize(text: str) -> list[str]:
    """Words, numbers and signs. ``3x3`` is three tokens; ``²`` is ``^ 2``; ``2.0f`` is ``2.0``."""
    plain = text.replace("×", " x ").replace("²", "^2").replace("·", "*").replace("−", "-").replace("–", "-")
    tokens = TOKEN.findall(re.sub(r"(?<=\d)x(?=\d)", " x ", plain))
    return [one.rstrip("f").rstrip(".") if re.match(r"[\d.]+(?:[eE][+-]?\d+)?f$", one) else one for one in tokens]


class _Stop(Exception):
    """No rule of the grammar continues here."""


class _Reader:
    def __init__(self, tokens: list[str], at: int) -> None:
        self.tokens = tokens
        self.at = at
        self.depth = 0

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise _Stop
        self.at += 1

    def choice(self) -> Expression:
        left = self.sum()
        operator = self.peek()
        if operator not in COMPARISONS:
            return left
        self.at += 1
        right = self.sum()
        self.take("?")
        yes = self.choice()
        self.take(":")
        return Choice(operator, left, right, yes, self.choice())

    def _chain(self, operators: tuple[str, ...], part: Callable[[], Expression]) -> Expression:
        left = part()
        while self.peek() in operators and self.peek(1) != "=":
            operator = self.peek()
            self.at += 1
            left = Operation(operator, (left, part()))
        return left

    def sum(self) -> Expression:
        return self._chain(("+", "-"), self.product)

    def product(self) -> Expression:
        return self._chain(("*", "/", "%"), self.unary)

    def unary(self) -> Expression:
        if self.peek() == "-":
            self.at += 1
            return Operation("neg", (self.unary(),))
        base = self.atom()
        if self.peek() in ("^", "**"):
            self.at += 1
            return Operation("^", (base, self.unary()))
        return base

    def listed(self, close: str, part: Callable[[], Expression]) -> tuple[Expression, ...]:
        items = [part()]
        while self.peek() == ",":
            self.at += 1
            items.append(part())
        self.take(close)
        return tuple(items)

    def atom(self) -> Expression:
        self.depth += 1
        if self.depth > 400:
            raise _Stop
        token = self.peek()
        self.at += 1
        if re.match(r"\.?\d", token):
            return Number(token)
        if token == "(":
            inner = self.choice()
            self.take(")")
            return inner
        if token == "|":
            inner = self.sum()
            self.take("|")
            return Call("abs", (inner,))
        if not re.match(r"[A-Za-z_]", token):
            raise _Stop
        if token.lower() in FOLDS and self.peek().lower() == "over":
            return self.fold(token.lower())
        subscripted = re.fullmatch(rf"({'|'.join(FOLDS)})_(\w)", token)
        if subscripted is not None and self.peek() != "[":
            return self._body_of_fold(subscripted[1], subscripted[2])
        if (token in UNARY_FUNCTIONS or token in BINARY_FUNCTIONS) and self.peek() == "(":
            self.at += 1
            arguments = self.listed(")", self.choice)
            if len(arguments) != (2 if token in BINARY_FUNCTIONS else 1):
                raise _Stop
            return Call(_plain_function(token), arguments)
        return self.indexed(token)

    def fold(self, operator: str) -> Expression:
        self.at += 1
        if self.peek() == "all":
            self.at += 1
        index = self.peek()
        if not re.fullmatch(r"[A-Za-z_]\w*", index):
            raise _Stop
        self.at += 1
        if self.peek() not in ("of", ":"):
            raise _Stop
        self.at += 1
        return self._body_of_fold(operator, index)

    def _body_of_fold(self, operator: str, index: str) -> Expression:
        body = self.product()
        if self.peek() in ("+", "-"):
            raise _Stop  # inside or behind the fold?
        return Fold(operator, index, body)

    def indexed(self, name: str) -> Expression:
        indices: tuple[Expression, ...] = ()
        while self.peek() == "[":
            self.at += 1
            indices += self.listed("]", self.sum)
        return Load(name, indices) if indices else Name(name)


def _plain_function(name: str) -> str:
    """``expf`` and ``fabs`` as ``exp`` and ``abs``: the type is the arrays'."""
    plain = name[:-1] if name.endswith("f") and name not in ("erf",) else name
    return {"ln": "log", "fabs": "abs", "fmax": "max", "fmin": "min"}.get(plain, plain)


def find_formulas(tokens: list[str]) -> list[Formula]:
    """Every ``name = ...``, ``name[...] = ...`` or ``+=`` of the text that the grammar reads."""
    found: list[Formula] = []
    for start, token in enumerate(tokens):
        if not re.match(r"[A-Za-z_]", token) or (found and start < found[-1].end):
            continue
        reader = _Reader(tokens, start + 1)
        try:
            left = reader.indexed(token)
            adds = reader.peek() == "+"
            if adds:
                reader.at += 1
            reader.take("=")
            value = reader.choice()
        except _Stop:
            continue
        indices = left.indices if isinstance(left, Load) else ()
        found.append(Formula(token, indices, value, start, reader.at, adds))
    return found


def read_formula(text: str) -> Formula | None:
    """The whole text as one formula; None if it is none."""
    tokens = tokenize(text)
    found = find_formulas(tokens)
    return found[0] if len(found) == 1 and (found[0].start, found[0].end) == (0, len(tokens)) else None


def parts_of(value: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one."""
    if isinstance(value, Load):
        return value.indices
    if isinstance(value, Operation):
        return value.operands
    if isinstance(value, Choice):
        return value.left, value.right, value.yes, value.no
    if isinstance(value, Fold):
        return (value.body,)
    return value.arguments if isinstance(value, Call) else ()


def with_parts(value: Expression, parts: tuple[Expression, ...]) -> Expression:
    """The same expression with other parts, in the order of ``parts_of``."""
    if isinstance(value, Load):
        return Load(value.array, parts)
    if isinstance(value, Operation):
        return Operation(value.operator, parts)
    if isinstance(value, Choice):
        return Choice(value.operator, *parts)
    if isinstance(value, Fold):
        return Fold(value.operator, value.index, parts[0], value.extent)
    return Call(value.function, parts) if isinstance(value, Call) else value


def names_in(value: Expression) -> set[str]:
    """Arrays and names that an expression reads; the indices of its folds are none."""
    inner: set[str] = set().union(*(names_in(one) for one in parts_of(value)))
    if isinstance(value, Name):
        return {value.name}
    if isinstance(value, Load):
        return inner | {value.array}
    return inner - {value.index} if isinstance(value, Fold) else inner


def folds_in(value: Expression) -> list[Fold]:
    """Every fold, outer ones first."""
    inner = [fold for part in parts_of(value) for fold in folds_in(part)]
    return [value, *inner] if isinstance(value, Fold) else inner


def loads_in(value: Expression) -> list[Load]:
    """Every element that is read, those inside indices too."""
    inner = [load for part in parts_of(value) for load in loads_in(part)]
    return [value, *inner] if isinstance(value, Load) else inner


def operators_in(value: Expression) -> set[str]:
    """Operators and functions of the value itself, not of its indices."""
    if isinstance(value, Load):
        return set()
    inner: set[str] = set().union(*(operators_in(one) for one in parts_of(value)))
    if isinstance(value, Operation):
        if value.operator == "^" and value.operands[1] != Number("2"):
            return inner | {"pow"}
        return inner | {value.operator}
    return inner | {value.function} if isinstance(value, Call) else inner


def offset_of(index: Expression) -> tuple[str, int] | None:
    """``i + 2`` as ("i", 2); None for anything else."""
    if isinstance(index, Name):
        return index.name, 0
    if isinstance(index, Operation) and index.operator in "+-" and len(index.operands) == 2:
        left, right = index.operands
        if isinstance(left, Name) and isinstance(right, Number) and right.text.isdigit():
            return left.name, int(right.text) * (1 if index.operator == "+" else -1)
    return None
