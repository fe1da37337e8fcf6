"""Launch expressions: read in the kernel's names, written for the workload language and for host code.

A rewrite says what the new launch is in the names that the kernel uses (its scalar parameters, its
locals, the file's macros, ``blockDim.x``) and in ``grid.x`` to ``block.z`` for the launch as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import frozen

from optiml_core.records import Failure, LaunchChange
from optiml_core.rewrites.context import Refusal
from optiml_core.workload.expression import (
    Binary,
    Call,
    Expression,
    Name,
    Negation,
    Number,
    parse_expression,
    replace_names,
    write_expression,
)

Triple = tuple[Expression, Expression, Expression]

AXES = ("x", "y", "z")
LAUNCH_NAMES = frozenset(f"{what}.{axis}" for what in ("grid", "block") for axis in AXES) | {"shared"}
ONE = Number(1)

_BUILTIN = re.compile(r"\b(gridDim|blockDim)\.([xyz])\b")


@frozen
class LaunchPlan:
    """The new launch of a kernel as expressions; None keeps what is there."""

    grid: Triple | None = None
    block: Triple | None = None
    shared: Expression | None = None


def plan(
    grid: tuple[str, str, str] | None = None, block: tuple[str, str, str] | None = None, shared: str | None = None
) -> LaunchPlan | Refusal:
    """A plan from texts in the kernel's names; a Refusal if one of them is no launch expression."""
    parsed: list[Triple | None] = []
    for texts in (grid, block):
        triple = None if texts is None else [read(text) for text in texts]
        if triple is not None and (refusal := next((one for one in triple if isinstance(one, Refusal)), None)):
            return refusal
        parsed.append(None if triple is None else _triple(triple))
    bytes_ = None if shared is None else read(shared)
    if isinstance(bytes_, Refusal):
        return bytes_
    return LaunchPlan(parsed[0], parsed[1], bytes_)


def _triple(values: list[Expression | Refusal]) -> Triple:
    x, y, z = (value for value in values if not isinstance(value, Refusal))
    return x, y, z


def read(text: str) -> Expression | Refusal:
    """A launch expression from C++ or workload-language text; integer casts and suffixes are dropped."""
    cleaned = _BUILTIN.sub(lambda match: f"{match[1].removesuffix('Dim')}.{match[2]}", text)
    cleaned = re.sub(r"\(\s*(?:const\s+)?(?:int|unsigned(?: int)?|uint|size_t|long(?: long)?)\s*\)", "", cleaned)
    parsed = parse_expression(cleaned)
    if isinstance(parsed, Failure):
        return Refusal(f"`{' '.join(text.split())}` cannot be computed where the kernel is launched")
    return simplify(parsed)


def simplify(expression: Expression) -> Expression:
    """Folds numbers and drops ``* 1``, ``+ 0`` and ``ceil_div(x, 1)``."""
    match expression:
        case Negation(operand):
            inner = simplify(operand)
            return Number(-inner.value) if isinstance(inner, Number) else Negation(inner)
        case Binary(operator, left, right):
            return _simplify_binary(operator, simplify(left), simplify(right))
        case Call(function, arguments):
            return _simplify_call(function, tuple(simplify(argument) for argument in arguments))
    return expression


def _simplify_binary(operator: str, left: Expression, right: Expression) -> Expression:
    if isinstance(left, Number) and isinstance(right, Number):
        first, second = left.value, right.value
        if isinstance(first, int) and isinstance(second, int):
            match operator:
                case "+":
                    return Number(first + second)
                case "-":
                    return Number(first - second)
                case "*":
                    return Number(first * second)
                case "/" if first >= 0 and second > 0:
                    return Number(first // second)
                case "%" if first >= 0 and second > 0:
                    return Number(first % second)
    if operator in ("*", "/") and right == ONE:
        return left
    if operator == "*" and left == ONE:
        return right
    if operator in ("+", "-") and right == Number(0):
        return left
    return Binary(operator, left, right)


def _simplify_call(function: str, arguments: tuple[Expression, ...]) -> Expression:
    if function == "ceil_div" and len(arguments) == 2:
        above, below = arguments
        if below == ONE:
            return above
        if isinstance(above, Number) and isinstance(below, Number):
            first, second = above.value, below.value
            if isinstance(first, int) and isinstance(second, int) and first >= 0 and second > 0:
                return Number(-(-first // second))
    values = [argument.value for argument in arguments if isinstance(argument, Number)]
    if function in ("min", "max") and len(values) == len(arguments):
        return Number(min(values) if function == "min" else max(values))
    return Call(function, arguments)


def substitute(expression: Expression, meaning: Callable[[str], Expression | Refusal | None]) -> Expression | Refusal:
    """Replaces every name for which ``meaning`` has an expression; a Refusal for any name stops it."""
    refusals: list[Refusal] = []

    def replace(name: Name) -> Expression:
        known = meaning(name.text)
        if isinstance(known, Refusal):
            refusals.append(known)
            return name
        return name if known is None else known

    replaced = replace_names(expression, replace)
    return refusals[0] if refusals else simplify(replaced)


def substitute_plan(launch: LaunchPlan, meaning: Callable[[str], Expression | Refusal | None]) -> LaunchPlan | Refusal:
    """``substitute`` for every expression of a plan."""

    def each(triple: Triple | None) -> Triple | Refusal | None:
        if triple is None:
            return None
        x, y, z = (substitute(one, meaning) for one in triple)
        if isinstance(x, Refusal):
            return x
        if isinstance(y, Refusal):
            return y
        return z if isinstance(z, Refusal) else (x, y, z)

    grid, block = each(launch.grid), each(launch.block)
    shared = None if launch.shared is None else substitute(launch.shared, meaning)
    if isinstance(grid, Refusal):
        return grid
    if isinstance(block, Refusal):
        return block
    return shared if isinstance(shared, Refusal) else LaunchPlan(grid, block, shared)


def launch_change(launch: LaunchPlan) -> LaunchChange:
    """A plan whose names the workload knows, as the record that travels between rooms."""
    return LaunchChange(
        grid=None if launch.grid is None else _written(launch.grid),
        block=None if launch.block is None else _written(launch.block),
        shared=None if launch.shared is None else write_expression(launch.shared),
    )


def _written(triple: Triple) -> tuple[str, str, str]:
    x, y, z = (write_expression(one) for one in triple)
    return x, y, z


def compose(earlier: LaunchChange, later: LaunchChange) -> LaunchChange:
    """The one change that stands for both; ``grid.x`` in ``later`` means the launch after ``earlier``."""

    def meaning(name: str) -> Expression | Refusal | None:
        what, _, axis = name.partition(".")
        texts = {"grid": earlier.grid, "block": earlier.block}.get(what)
        text = earlier.shared if name == "shared" else None if texts is None or not axis else texts[AXES.index(axis)]
        if text is None:
            return None
        parsed = parse_expression(text)
        return Refusal(parsed.message) if isinstance(parsed, Failure) else parsed

    def rewritten(text: str) -> str:
        parsed = parse_expression(text)
        if isinstance(parsed, Failure):
            return text  # both texts were written by `launch_change`, so this is never reached with a valid record
        replaced = substitute(parsed, meaning)
        return text if isinstance(replaced, Refusal) else write_expression(replaced)

    def each(texts: tuple[str, str, str] | None, before: tuple[str, str, str] | None) -> tuple[str, str, str] | None:
        if texts is None:
            return before
        x, y, z = (rewritten(text) for text in texts)
        return x, y, z

    return LaunchChange(
        grid=each(later.grid, earlier.grid),
        block=each(later.block, earlier.block),
        shared=earlier.shared if later.shared is None else rewritten(later.shared),
        template_arguments=later.template_arguments or earlier.template_arguments,
    )


# --------------------------------------------------------------------------------- host code

_PRIMARY = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)\w+)*|\d\w*")
_LEVELS = {"<<": 1, ">>": 1, "+": 2, "-": 2, "*": 3, "/": 3, "%": 3}


def host_text(expression: Expression, text_of_name: Callable[[str], str]) -> str:
    """C++ for host code. ``text_of_name`` gives the code that stands for a name at the launch site."""
    return _host(expression, text_of_name, 0)


def _host(expression: Expression, name_text: Callable[[str], str], level: int) -> str:
    match expression:
        case Number(value):
            return str(value)
        case Name(text):
            code = name_text(text)
            if level == 0 or is_primary(code):
                return code
            parsed = parse_expression(code)
            if not isinstance(parsed, Failure) and write_expression(parsed).replace(" ", "") == "".join(code.split()):
                return _host(parsed, lambda name: name, level)
            return f"({code})"
        case Negation(operand):
            return "-" + _host(operand, name_text, 4)
        case Call("ceil_div", (above, below)):
            if isinstance(below, Number):
                return _host(Binary("/", Binary("+", above, Number(below.value - 1)), below), name_text, level)
            return _host(Binary("/", Binary("-", Binary("+", above, below), ONE), below), name_text, level)
        case Call(function, arguments):
            first, *others = arguments
            folded = _host(first, name_text, 0)
            for other in others:
                sign = "<" if function == "min" else ">"
                right = _host(other, name_text, 0)
                folded = f"({folded} {sign} {right} ? {folded} : {right})"
            return folded
        case Binary(operator, left, right):
            own = _LEVELS[operator]
            text = f"{_host(left, name_text, own)} {operator} {_host(right, name_text, own + 1)}"
            return f"({text})" if own < level else text
    raise TypeError(f"not a launch expression: {expression!r}")


def is_primary(code: str) -> bool:
    """Whether code needs no parentheses as an operand: a name, a number, or something in brackets."""
    code = code.strip()
    if _PRIMARY.fullmatch(code):
        return True
    start = _PRIMARY.match(code)
    rest = code[start.end() :] if start else code
    return bool(rest) and rest[0] in "([" and _closes_at_end(rest)


def _closes_at_end(text: str) -> bool:
    depth = 0
    for index, character in enumerate(text):
        depth += character in "([{"
        depth -= character in ")]}"
        if depth == 0 and index < len(text) - 1 and text[index + 1] not in "([":
            return False
    return depth == 0
