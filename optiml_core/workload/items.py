"""The items of the workload language: what one declaration is made of, how it is read and written.

An item is a scalar (`rows = 1024`, `Real = double`), a buffer (`x[rows * cols]: normal(0, 1)`,
`y[rows * cols]`), a shape (`grid = ...`, `block = ...`), `shared = bytes` or `require relation`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from attrs import evolve, field, frozen

from optiml_core.records import Failure
from optiml_core.workload.expression import (
    Expression,
    LanguageError,
    Name,
    Reader,
    Token,
    names_in,
    read_expression,
    replace_names,
    shown,
    tokenize,
    write_expression,
)

# How many parameters each content takes, at least and at most.
CONTENTS: dict[str, tuple[int, int]] = {
    "normal": (0, 2),
    "uniform": (0, 2),
    "ramp": (0, 0),
    "zeros": (0, 0),
    "constant": (1, 1),
    "index": (1, 1),
    "permutation": (1, 1),
    "sorted": (0, 0),
    "offsets": (1, 1),
}
RELATIONS = ("==", "!=", "<=", ">=", "<", ">")
RESERVED = ("grid", "block", "shared", "require")


@frozen
class Place:
    """Where an item stands: for messages only, so two items at different places are equal."""

    file: str | None = None
    line: int | None = None
    column: int = 1


@frozen
class Scalar:
    """`name = expression`: a scalar argument, a struct member, a template value, or a helper name."""

    name: str
    value: Expression
    place: Place = field(factory=Place, eq=False, kw_only=True)


@frozen
class TypeArgument:
    """`Real = double`: the argument of a type parameter of a template, as C++ spells it."""

    name: str
    spelling: str
    place: Place = field(factory=Place, eq=False, kw_only=True)


@frozen
class Content:
    kind: str
    parameters: tuple[Expression, ...] = ()


@frozen
class Buffer:
    """`name[length]: content`. No length: it is inferred. No content: an output, poisoned."""

    name: str
    length: Expression | None
    content: Content | None
    place: Place = field(factory=Place, eq=False, kw_only=True)


@frozen
class Shape:
    """`grid = ...` or `block = ...` with one to three extents."""

    name: str
    extents: tuple[Expression, ...]
    place: Place = field(factory=Place, eq=False, kw_only=True)


@frozen
class SharedMemory:
    """`shared = bytes` of dynamic shared memory."""

    bytes: Expression
    place: Place = field(factory=Place, eq=False, kw_only=True)


@frozen
class Requirement:
    """`require left relation right`."""

    left: Expression
    relation: str
    right: Expression
    place: Place = field(factory=Place, eq=False, kw_only=True)


Item = Scalar | TypeArgument | Buffer | Shape | SharedMemory | Requirement

# ------------------------------------------------------------------------------------- reading


def read_items(
    text: str, place: Place = Place(), type_parameters: Collection[str] = ()
) -> tuple[tuple[Item, ...], tuple[Failure, ...]]:
    """The items of one line and what is wrong with the rest; one bad item does not hide the others.

    ``place`` is where ``text`` begins. Names in ``type_parameters`` take a C++ type as their value.
    """
    try:
        tokens = tokenize(text)
    except LanguageError as error:
        return (), (_failure(error, place),)
    items: list[Item] = []
    failures: list[Failure] = []
    for part in _split(tokens, type_parameters):
        reader = Reader(part, place.column)
        start = evolve(place, column=place.column + part[0].start)
        try:
            if part[0].kind == "end":
                raise LanguageError("an item is missing here", part[0].start, "remove the comma or add an item")
            items.append(_read_item(reader, text, start, type_parameters))
        except LanguageError as error:
            failures.append(_failure(error, place))
    return tuple(items), tuple(failures)


def _failure(error: LanguageError, place: Place) -> Failure:
    return Failure("bad-input", error.message, place.file, place.line, place.column + error.offset, error.cure)


def _split(tokens: list[Token], type_parameters: Collection[str]) -> list[list[Token]]:
    """The tokens of each item: commas inside brackets do not separate, nor do those of a C++ type's `< >`."""
    parts: list[list[Token]] = []
    part: list[Token] = []
    depth = 0
    for token in tokens[:-1]:
        is_type = len(part) >= 2 and part[0].text in type_parameters and part[1].text == "="
        opening, closing = ("([{<", ")]}>") if is_type else ("([{", ")]}")
        if token.kind == "symbol" and token.text == "," and depth <= 0:
            parts.append([*part, Token("end", "", token.start, token.start)])
            part, depth = [], 0
            continue
        if token.kind == "symbol":
            depth += sum(one in opening for one in token.text) - sum(one in closing for one in token.text)
        part.append(token)
    end = tokens[-1].start
    if part or parts:
        parts.append([*part, Token("end", "", end, end)])
    return parts


def _read_item(reader: Reader, text: str, place: Place, type_parameters: Collection[str]) -> Item:
    first = reader.advance()
    if first.kind != "name":
        raise LanguageError(f"expected a name, found {shown(first)}", first.start)
    if first.text == "require":
        return _read_requirement(reader, place)
    if reader.take("="):
        item = _read_assignment(reader, first, text, place, type_parameters)
    else:
        item = _read_buffer(reader, first, place)
    if reader.token.kind != "end":
        raise LanguageError(f"unexpected {shown(reader.token)}", reader.token.start, "separate items by commas")
    return item


def _read_assignment(reader: Reader, name: Token, text: str, place: Place, type_parameters: Collection[str]) -> Item:
    if reader.token.kind == "end":
        raise LanguageError("a value is missing after `=`", reader.token.start)
    if name.text in type_parameters:
        start = reader.token.start
        while reader.token.kind != "end":
            reader.advance()
        return TypeArgument(name.text, text[start : reader.previous_end], place=place)
    if name.text in ("grid", "block"):
        return Shape(name.text, _read_extents(reader), place=place)
    value = read_expression(reader)
    return SharedMemory(value, place=place) if name.text == "shared" else Scalar(name.text, value, place=place)


def _read_extents(reader: Reader) -> tuple[Expression, ...]:
    """An expression, or a tuple of one to three. `(a + b) / 2` begins like a tuple and is none."""
    start = reader.token.start
    if _is_tuple(reader):
        reader.expect("(")
        extents = [read_expression(reader)]
        while reader.take(","):
            extents.append(read_expression(reader))
        reader.expect(")")
    else:
        extents = [read_expression(reader)]
    if len(extents) > 3:
        raise LanguageError("at most three extents", start)
    return tuple(extents)


def _is_tuple(reader: Reader) -> bool:
    if not reader.is_symbol("("):
        return False
    depth = 0
    at = reader.tokens.index(reader.token)
    for token in reader.tokens[at:]:
        if token.kind == "symbol":
            depth += (token.text == "(") - (token.text == ")")
            if token.text == "," and depth == 1:
                return True
        if depth == 0:
            return False
    return False


def _read_requirement(reader: Reader, place: Place) -> Requirement:
    left = read_expression(reader)
    if not reader.is_symbol(*RELATIONS):
        raise LanguageError(
            f"expected a relation, found {shown(reader.token)}", reader.token.start, f"one of {' '.join(RELATIONS)}"
        )
    relation = reader.advance().text
    right = read_expression(reader)
    if reader.token.kind != "end":
        raise LanguageError(
            f"unexpected {shown(reader.token)}", reader.token.start, "write one relation after each `require`"
        )
    return Requirement(left, relation, right, place=place)


def _read_buffer(reader: Reader, name: Token, place: Place) -> Buffer:
    if name.text in RESERVED:
        raise LanguageError(f"`{name.text}` needs a value", name.start, f"write `{name.text} = ...`")
    length = None
    if reader.take("["):
        length = read_expression(reader)
        reader.expect("]")
    content = read_content(reader) if reader.take(":") else None
    return Buffer(name.text, length, content, place=place)


def read_content(reader: Reader) -> Content:
    """Reads `normal(0, 1)` and the like from the cursor; raises LanguageError."""
    kind = reader.advance()
    if kind.kind != "name" or kind.text not in CONTENTS:
        raise LanguageError(f"unknown content {shown(kind)}", kind.start, f"the contents are {', '.join(CONTENTS)}")
    parameters: list[Expression] = []
    if reader.take("(") and not reader.take(")"):
        parameters.append(read_expression(reader))
        while reader.take(","):
            parameters.append(read_expression(reader))
        reader.expect(")")
    least, most = CONTENTS[kind.text]
    # One lone parameter of normal or uniform would be a guess at which of the two is meant.
    if not least <= len(parameters) <= most or (most == 2 and len(parameters) == 1):
        wanted = "no or 2" if most == 2 else str(most) if most else "no"
        raise LanguageError(f"`{kind.text}` takes {wanted} parameter{'s' * (most != 1)}", kind.start)
    return Content(kind.text, tuple(parameters))


# ------------------------------------------------------------------------------------- writing


def write_item(item: Item) -> str:
    """The text of one item; it reads back to an equal item."""
    match item:
        case Scalar(name, value):
            return f"{name} = {write_expression(value)}"
        case TypeArgument(name, spelling):
            return f"{name} = {spelling}"
        case Buffer(name, length, content):
            bracket = "" if length is None else f"[{write_expression(length)}]"
            return name + bracket + ("" if content is None else f": {write_content(content)}")
        case Shape(name, extents):
            texts = [write_expression(extent) for extent in extents]
            return f"{name} = {texts[0] if len(texts) == 1 else '(' + ', '.join(texts) + ')'}"
        case SharedMemory(size):
            return f"shared = {write_expression(size)}"
        case Requirement(left, relation, right):
            return f"require {write_expression(left)} {relation} {write_expression(right)}"


def write_content(content: Content) -> str:
    if not content.parameters:
        return content.kind
    return f"{content.kind}({', '.join(write_expression(parameter) for parameter in content.parameters)})"


def write_items(items: Iterable[Item], prefix: str = "// optiml: ", width: int = 110) -> list[str]:
    """Declaration lines that hold the items, each line within ``width`` where an item allows it."""
    lines: list[str] = []
    for item in items:
        text = write_item(item)
        if lines and len(lines[-1]) + 2 + len(text) <= width:
            lines[-1] += ", " + text
        else:
            lines.append(prefix + text)
    return lines


# --------------------------------------------------------------------------------------- facts


def item_key(item: Item) -> str:
    """What an item sets: an item with the same key replaces it. Requirements add up instead."""
    match item:
        case Scalar(name) | TypeArgument(name) | Buffer(name) | Shape(name):
            return name
        case SharedMemory():
            return "shared"
        case Requirement():
            return write_item(item)


def expressions_of(item: Item) -> tuple[Expression, ...]:
    """Every expression in an item, in the order of its text."""
    match item:
        case Scalar(_, value):
            return (value,)
        case TypeArgument():
            return ()
        case Buffer(_, length, content):
            return (*(() if length is None else (length,)), *(content.parameters if content else ()))
        case Shape(_, extents):
            return extents
        case SharedMemory(size):
            return (size,)
        case Requirement(left, _, right):
            return (left, right)


def names_of_item(item: Item) -> frozenset[str]:
    """The names that an item's expressions use."""
    return frozenset().union(*(names_in(expression) for expression in expressions_of(item)))


def with_names(item: Item, renamed: Mapping[str, str]) -> Item:
    """The item with its own name, and the names in its expressions, replaced where ``renamed`` has them."""

    def new(expression: Expression) -> Expression:
        return replace_names(expression, lambda name: Name(renamed.get(name.text, name.text), name.column))

    match item:
        case Scalar(name, value):
            return evolve(item, name=renamed.get(name, name), value=new(value))
        case TypeArgument():
            return item
        case Buffer(name, length, content):
            parameters = tuple(new(one) for one in content.parameters) if content else ()
            return evolve(
                item,
                name=renamed.get(name, name),
                length=None if length is None else new(length),
                content=None if content is None else Content(content.kind, parameters),
            )
        case Shape(_, extents):
            return evolve(item, extents=tuple(new(extent) for extent in extents))
        case SharedMemory(size):
            return evolve(item, bytes=new(size))
        case Requirement(left, _, right):
            return evolve(item, left=new(left), right=new(right))


def replaced(items: Iterable[Item], by: Iterable[Item]) -> tuple[Item, ...]:
    """``items`` with each one of ``by`` in the place of the item with the same key, else at the end."""
    merged = {item_key(item): item for item in items}
    for item in by:
        merged[item_key(item)] = item
    return tuple(merged.values())
