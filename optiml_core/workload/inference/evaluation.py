"""What a host expression is at a place of the program: constant propagation over the text.

Control flow is followed as far as its conditions are known when the program is started without arguments;
a loop is seen in its first iteration; a function sees the arguments of its first call in the file.
"""

from __future__ import annotations

import re

from optiml_core.workload.expression import Name

# The modules of this folder evaluate each other's parts, so they import each other as modules.
from optiml_core.workload.inference import allocations, calls, constants, variables
from optiml_core.workload.inference.context import DEEPEST, MOST_STEPS, Context, Frame
from optiml_core.workload.inference.syntax import (
    Fragment,
    path_of,
    without_casts,
)
from optiml_core.workload.inference.values import (
    HostValue,
    Listing,
    Pointer,
    Quantity,
    Unknown,
    as_float,
    as_integer,
    combine,
    minus,
    number,
    plain_number,
)

# -------------------------------------------------------------------------------- expressions


def evaluate(context: Context, fragment: Fragment, frame: Frame | None, position: int) -> HostValue:
    """The value of an expression at byte ``position`` of the frame's function (of the file without a frame)."""
    context.steps[0] += 1
    if context.steps[0] > MOST_STEPS or (frame is not None and frame.depth > DEEPEST):
        return Unknown("the host code is too involved to follow")
    kind = fragment.node.type
    if kind in ("identifier", "field_expression", "qualified_identifier"):
        return variables.named_value(context, fragment, frame, position)
    if kind == "number_literal":
        return _literal(fragment.text)
    if kind in ("parenthesized_expression", "condition_clause"):
        inner = fragment.child("value") or next(iter(fragment.named()), None)
        return evaluate(context, inner, frame, position) if inner else Unknown("an empty expression")
    if kind == "binary_expression":
        return _binary(context, fragment, frame, position)
    if kind == "unary_expression":
        return _unary(context, fragment, frame, position)
    if kind == "cast_expression":
        target, value = fragment.child("type"), fragment.child("value")
        inner_value = evaluate(context, value, frame, position) if value else Unknown("an empty cast")
        return converted(inner_value, target.text if target else "")
    if kind == "conditional_expression":
        return _conditional(context, fragment, frame, position)
    if kind == "sizeof_expression":
        return constants.size_of(context, fragment, frame, position)
    if kind == "initializer_list":
        return Listing(tuple(evaluate(context, one, frame, position) for one in fragment.named()))
    if kind in ("call_expression", "compound_literal_expression"):
        return calls.called_value(context, fragment, frame, position)
    if kind == "subscript_expression":
        return _element(context, fragment, frame, position)
    if kind == "pointer_expression":
        return _address(context, fragment, frame, position)
    if kind == "new_expression":
        return allocations.allocated_by_new(context, fragment, frame, position)
    if kind in ("true", "false"):
        return number(int(kind == "true"))
    if kind == "assignment_expression":
        value = fragment.child("right")
        return evaluate(context, value, frame, position) if value else Unknown("an empty assignment")
    return Unknown(f"`{fragment.text[:40]}` is no number")


def _literal(text: str) -> HostValue:
    digits = text.replace("'", "")
    try:
        if digits[:2].lower() == "0x" and "." not in digits:
            return number(int(digits.rstrip("uUlLzZ"), 16))
        if digits[:2].lower() == "0b":
            return number(int(digits.rstrip("uUlLzZ"), 2))
        if any(letter in digits for letter in ".eE") or digits[-1:] in "fF":
            return number(float(digits.rstrip("fFlL")))
        plain = digits.rstrip("uUlLzZ")
        return number(int(plain, 8 if len(plain) > 1 and plain[0] == "0" else 10))
    except ValueError:
        return Unknown(f"`{text}` is no number")


def _binary(context: Context, fragment: Fragment, frame: Frame | None, position: int) -> HostValue:
    left, right = fragment.child("left"), fragment.child("right")
    if left is None or right is None:
        return Unknown("a broken expression")
    operator = fragment.data[left.node.end_byte : right.node.start_byte].decode("utf-8", "replace").strip()
    first, second = evaluate(context, left, frame, position), evaluate(context, right, frame, position)
    if isinstance(first, Pointer) and isinstance(second, Quantity) and operator in ("+", "-"):
        offset = combine(operator, first.offset, second)
        return Pointer(first.allocation, offset, first.paths) if isinstance(offset, Quantity) else offset
    if isinstance(first, Quantity) and isinstance(second, Pointer) and operator == "+":
        offset = combine("+", second.offset, first)
        return Pointer(second.allocation, offset, second.paths) if isinstance(offset, Quantity) else offset
    if operator in ("&&", "||"):
        # One side can be enough.
        for one in (first, second):
            if isinstance(one, Quantity) and bool(one.value) == (operator == "||"):
                return number(int(operator == "||"))
    for one in (first, second):
        if isinstance(one, Unknown):
            return one
    if isinstance(first, Quantity) and isinstance(second, Quantity):
        return combine(operator, first, second)
    return Unknown(f"`{fragment.text[:40]}` is no number")


def _unary(context: Context, fragment: Fragment, frame: Frame | None, position: int) -> HostValue:
    argument = fragment.child("argument")
    value = evaluate(context, argument, frame, position) if argument else Unknown("a broken expression")
    if not isinstance(value, Quantity):
        return value
    sign = fragment.text.lstrip()[0]
    if sign == "-":
        return minus(value)
    if sign == "!":
        return plain_number(int(not value.value), value)
    if sign == "~":
        return plain_number(~int(value.value), value)
    return value


def _conditional(context: Context, fragment: Fragment, frame: Frame | None, position: int) -> HostValue:
    condition, yes, no = (fragment.child(name) for name in ("condition", "consequence", "alternative"))
    if condition is None or yes is None or no is None:
        return Unknown("a broken expression")
    known = evaluate(context, condition, frame, position)
    first, second = (evaluate(context, one, frame, position) for one in (yes, no))
    if isinstance(first, Quantity) and isinstance(second, Quantity) and isinstance(known, Quantity):
        rounding = constants.rounding_choice(first, second)
        if rounding is not None and "%" in condition.text:
            return rounding
        extreme = constants.extreme_choice(condition.text, yes.text, no.text, first, second)
        if extreme is not None:
            return extreme
    if isinstance(known, Quantity):
        return first if known.value else second
    return second if isinstance(first, Unknown) else first


def converted(value: HostValue, type_text: str) -> HostValue:
    """A cast to the type that ``type_text`` spells."""
    if not isinstance(value, Quantity) or "*" in type_text:
        return value
    if re.search(r"\b(float|double|half|__half|real|Real|REAL)\b", type_text):
        return as_float(value)
    if re.search(r"\b(u?int\w*|unsigned|signed|long|short|char|size_t|bool|uint|dim3)\b", type_text):
        return as_integer(value)
    return value


def _address(context: Context, fragment: Fragment, frame: Frame | None, position: int) -> HostValue:
    """`&x[3]`, `&x` or `*x`."""
    argument = fragment.child("argument")
    if argument is None:
        return Unknown("a broken expression")
    if fragment.text.startswith("*"):
        return evaluate(context, argument, frame, position)
    inner = without_casts(argument)
    if inner.node.type == "subscript_expression":
        owner = inner.child("argument")
        base = evaluate(context, owner, frame, position) if owner else Unknown("a broken expression")
        offset = _index(context, inner, frame, position)
        if isinstance(base, Pointer) and isinstance(offset, Quantity):
            total = combine("+", base.offset, offset)
            return Pointer(base.allocation, total, base.paths) if isinstance(total, Quantity) else total
        return base if isinstance(base, Pointer) else Unknown(f"`{fragment.text[:40]}` is no pointer that is known")
    return evaluate(context, argument, frame, position)


def _index(context: Context, subscript: Fragment, frame: Frame | None, position: int) -> HostValue:
    listed = subscript.child("indices")
    first = next(iter(listed.named()), None) if listed else None
    return evaluate(context, first, frame, position) if first else Unknown("a broken subscript")


def _element(context: Context, fragment: Fragment, frame: Frame | None, position: int) -> HostValue:
    owner = fragment.child("argument")
    if owner is None:
        return Unknown("a broken subscript")
    if owner.text == "argv":
        return _command_line(context, _index(context, fragment, frame, position), fragment.node.start_point[0] + 1)
    base, index = evaluate(context, owner, frame, position), _index(context, fragment, frame, position)
    if isinstance(base, Listing) and base.values:
        if isinstance(index, Quantity) and not _is_loop_variable(index):
            inside = 0 <= index.value < len(base.values)
            return base.values[int(index.value)] if inside else Unknown("an index out of range")
        return constants.chosen(context, base, "", fragment)
    path = path_of(fragment)
    if path is None:
        return Unknown(f"`{fragment.text[:40]}` is not known")
    return variables.variable(context, path, frame, position)


def _command_line(context: Context, index: HostValue, line: int) -> HostValue:
    """An argument of the program, where it is known what the program is run with."""
    if isinstance(index, Quantity) and 1 <= index.value <= len(context.arguments):
        given = _literal(context.arguments[int(index.value) - 1])
        if isinstance(given, Quantity):
            key = f"argv.{int(index.value)}"
            note = f"{given.value} was taken: the Makefile beside the file runs the program with it"
            return context.root(key, f"argument{int(index.value)}", given.value, "choice", line, note)
    return Unknown("it comes from the command line", line)


def _is_loop_variable(index: Quantity) -> bool:
    return isinstance(index.expression, Name) and index.expression.text.endswith("#loop")
