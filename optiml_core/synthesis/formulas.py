"""Formulas in a description: ``y[i] = 0.5 * x[i - 1] + |z[order[i]]|``, read, printed as CUDA and evaluated by NumPy.

Grammar (recursive descent over the tokens of the text; a formula ends where no rule continues it):
``sum = product {(+|-) product}``, ``product = unary {(*|/) unary}``, ``unary = - unary | power``,
``power = atom [(^|**) unary]``,
``atom = number | name {[ sum {, sum} ]} | function ( sum {, sum} ) | ( sum ) | |sum|``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

Values = npt.NDArray[Any]

TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.\d+(?:[eE][+-]?\d+)?|\d+|\.\d+|\*\*|\S")


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
    """``+ - * / ^``, or ``neg`` with one operand."""

    operator: str
    operands: tuple[Expression, ...]


@frozen
class Call:
    function: str
    arguments: tuple[Expression, ...]


Expression = Number | Name | Load | Operation | Call


@frozen
class Formula:
    """``target[indices] = value``; ``indices`` empty for a formula over whole arrays."""

    target: str
    indices: tuple[Expression, ...]
    value: Expression
    start: int  # first token
    end: int  # behind the last token


# function: (CUDA name of the float form, NumPy)
FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "exp": ("expf", np.exp), "log": ("logf", np.log), "ln": ("logf", np.log), "sqrt": ("sqrtf", np.sqrt),
    "sin": ("sinf", np.sin), "cos": ("cosf", np.cos), "tanh": ("tanhf", np.tanh), "abs": ("fabsf", np.abs),
    "max": ("fmaxf", np.fmax), "min": ("fminf", np.fmin), "pow": ("powf", np.power), "floor": ("floorf", np.floor),
    "ceil": ("ceilf", np.ceil), "atan": ("atanf", np.arctan), "log2": ("log2f", np.log2),
}  # fmt: skip
INTEGER_FUNCTIONS = {"abs": "abs", "max": "max", "min": "min"}


def tokenize(text: str) -> list[str]:
    """Words, numbers and signs. ``3x3`` is three tokens."""
    return TOKEN.findall(re.sub(r"(?<=\d)x(?=\d)", " x ", text.replace("×", " x ")))


class _Stop(Exception):
    """No rule of the grammar continues here."""


class _Reader:
    def __init__(self, tokens: list[str], at: int) -> None:
        self.tokens = tokens
        self.at = at

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str) -> None:
        if self.peek() != wanted:
            raise _Stop
        self.at += 1

    def _chain(self, operators: tuple[str, ...], part: Callable[[], Expression]) -> Expression:
        left = part()
        while self.peek() in operators:
            operator = self.peek()
            self.at += 1
            left = Operation(operator, (left, part()))
        return left

    def sum(self) -> Expression:
        return self._chain(("+", "-"), self.product)

    def product(self) -> Expression:
        return self._chain(("*", "/"), self.unary)

    def unary(self) -> Expression:
        if self.peek() == "-":
            self.at += 1
            return Operation("neg", (self.unary(),))
        base = self.atom()
        if self.peek() in ("^", "**"):
            self.at += 1
            return Operation("^", (base, self.unary()))
        return base

    def listed(self, close: str) -> tuple[Expression, ...]:
        items = [self.sum()]
        while self.peek() == ",":
            self.at += 1
            items.append(self.sum())
        self.take(close)
        return tuple(items)

    def atom(self) -> Expression:
        token = self.peek()
        self.at += 1
        if re.match(r"[\d.]+\d*", token) and token != ".":
            return Number(token)
        if token == "(":
            inner = self.sum()
            self.take(")")
            return inner
        if token == "|":
            inner = self.sum()
            self.take("|")
            return Call("abs", (inner,))
        if not re.match(r"[A-Za-z_]", token):
            raise _Stop
        if token in FUNCTIONS and self.peek() == "(":
            self.at += 1
            arguments = self.listed(")")
            if len(arguments) != (2 if token in ("max", "min", "pow") else 1):
                raise _Stop
            return Call(token, arguments)
        return self.indexed(token)

    def indexed(self, name: str) -> Expression:
        indices: tuple[Expression, ...] = ()
        while self.peek() == "[":
            self.at += 1
            indices += self.listed("]")
        return Load(name, indices) if indices else Name(name)


def find_formulas(tokens: list[str]) -> list[Formula]:
    """Every ``name = ...`` or ``name[...] = ...`` of the text that the grammar reads."""
    found: list[Formula] = []
    for start, token in enumerate(tokens):
        if not re.match(r"[A-Za-z_]", token) or (found and start < found[-1].end):
            continue
        reader = _Reader(tokens, start + 1)
        try:
            left = reader.indexed(token)
            reader.take("=")
            value = reader.sum()
        except _Stop:
            continue
        indices = left.indices if isinstance(left, Load) else ()
        found.append(Formula(token, indices, value, start, reader.at))
    return found


def names_in(value: Expression) -> set[str]:
    """Arrays and names that an expression reads."""
    if isinstance(value, Name):
        return {value.name}
    if isinstance(value, Load):
        return {value.array}.union(*(names_in(one) for one in value.indices))
    return set().union(*(names_in(one) for one in parts_of(value)))


def parts_of(value: Expression) -> tuple[Expression, ...]:
    if isinstance(value, Load):
        return value.indices
    if isinstance(value, Operation):
        return value.operands
    return value.arguments if isinstance(value, Call) else ()


def loads_in(value: Expression) -> list[Load]:
    inner = [load for part in parts_of(value) for load in loads_in(part)]
    return [value, *inner] if isinstance(value, Load) else inner


def offset_of(index: Expression) -> tuple[str, int] | None:
    """``i + 2`` as ("i", 2); None for anything else."""
    if isinstance(index, Name):
        return index.name, 0
    if isinstance(index, Operation) and index.operator in "+-" and len(index.operands) == 2:
        left, right = index.operands
        if isinstance(left, Name) and isinstance(right, Number) and right.text.isdigit():
            return left.name, int(right.text) * (1 if index.operator == "+" else -1)
    return None


def index_text(value: Expression) -> str:
    """An index as C++ text."""
    if isinstance(value, Number):
        return value.text
    if isinstance(value, Name):
        return value.name
    if isinstance(value, Load):
        return f"{value.array}[{index_text(value.indices[0])}]"
    if isinstance(value, Operation) and value.operator in "+-*":
        left, right = (index_text(one) for one in value.operands)
        return f"({left} {value.operator} {right})" if value.operator == "*" else f"{left} {value.operator} {right}"
    raise ValueError("no index")


def value_text(value: Expression, ctype: str, load: Callable[[Load], str]) -> str:
    """An expression as C++ text computed in ``ctype``; ``load`` prints an element."""
    if isinstance(value, Number):
        plain = value.text if ctype == "int" or "." in value.text else value.text + ".0"
        return plain + ("f" if ctype == "float" else "")
    if isinstance(value, Name):
        return value.name
    if isinstance(value, Load):
        return load(value)
    texts = [value_text(one, ctype, load) for one in parts_of(value)]
    if isinstance(value, Call):
        name = FUNCTIONS[value.function][0]
        if ctype == "int":
            name = INTEGER_FUNCTIONS.get(value.function, value.function)
        return f"{name if ctype != 'double' else name[:-1]}({', '.join(texts)})"
    assert isinstance(value, Operation)
    if value.operator == "neg":
        return f"-({texts[0]})" if isinstance(value.operands[0], Operation) else f"-{texts[0]}"
    if value.operator == "^":
        if value.operands[1] == Number("2"):
            base = texts[0] if not isinstance(value.operands[0], Operation) else f"({texts[0]})"
            return f"{base} * {base}"
        return f"pow{'f' if ctype == 'float' else ''}({texts[0]}, {texts[1]})"
    grouped = [
        f"({text})" if _needs_brackets(value.operator, part, place) else text
        for place, (text, part) in enumerate(zip(texts, value.operands, strict=True))
    ]
    return f"{grouped[0]} {value.operator} {grouped[1]}"


def _needs_brackets(operator: str, part: Expression, place: int) -> bool:
    if not isinstance(part, Operation):
        return False
    if part.operator == "neg":
        return place == 1
    if operator in "*/":
        return part.operator in "+-" or (place == 1)
    return place == 1 and operator == "-" and part.operator in "+-"


def evaluate(value: Expression, names: Mapping[str, Any], load: Callable[[Load], Values]) -> Any:
    """The expression's values by NumPy in the widest types; ``load`` gives the elements of a Load."""
    if isinstance(value, Number):
        return float(value.text) if "." in value.text else int(value.text)
    if isinstance(value, Name):
        return names[value.name]
    if isinstance(value, Load):
        return load(value)
    parts = [evaluate(one, names, load) for one in parts_of(value)]
    if isinstance(value, Call):
        return FUNCTIONS[value.function][1](*parts)
    assert isinstance(value, Operation)
    operator = value.operator
    if operator == "neg":
        return -parts[0]
    if operator == "^":
        return parts[0] ** parts[1]
    left, right = parts
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    return left * right if operator == "*" else left / right
