"""The value of a variable at a place in a function, for integers and pointers alike.

It is the nearest definition before the place that is certain there, if nothing uncertain lies
between. In a loop, a variable with one unconditional update ``x += step`` is its value before the
loop plus ``step`` times the iteration's number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from attrs import frozen
from tree_sitter import Node

from optiml_core.source.affine_form import AffineForm, constant_form, variable_form
from optiml_core.source.definitions import Definition, LocalVariable, LoopNode
from optiml_core.source.polynomials import ZERO, number
from optiml_core.source.tree_queries import operator_of, text_of, without_parentheses

if TYPE_CHECKING:
    from optiml_core.source.index_forms import IndexContext

Value = TypeVar("Value")
DEEPEST = 40


@frozen
class Evaluation(Generic[Value]):
    """How values of one ``kind`` are read: ``evaluate(node, at, depth)`` an initialiser, ``plus`` a step;
    ``initial`` is the value of a parameter before the function changes it."""

    kind: str
    evaluate: Callable[[Node, int, int], Value | None]
    plus: Callable[[Value, AffineForm], Value]
    initial: Callable[[str], Value | None]


def reaching_value(
    context: IndexContext, variable: LocalVariable, at: int, depth: int, how: Evaluation[Value]
) -> Value | None:
    """The variable's value at byte ``at``, or None where control flow or an unknown write decides it."""
    if depth > DEEPEST:
        return None
    definitions = [d for d in context.definitions.definitions_of(variable) if d.operator != "none"]
    loops = [x for x in context.definitions.loops_around(at) if x.repeated[0] > variable.at]
    if not loops:
        return _last_before(context, variable, [d for d in definitions if d.end <= at], at, depth, how)
    loop = loops[-1]
    inside = [d for d in definitions if loop.node.start_byte in d.loops]
    if not inside:
        return _before_loop(context, variable, loop, depth, how)
    before = [d for d in inside if d.end <= at]
    if before:
        last = before[-1]
        fresh = last.operator == "=" and step_of(context, last, depth) is None
        if fresh and last.block[0] <= at < last.block[1]:
            return _result(context, variable, last, depth, how)
    if variable.at >= loop.repeated[0]:
        return _last_before(context, variable, before, at, depth, how)
    return _induction(context, variable, inside, loop, at, depth, how)


def _last_before(
    context: IndexContext,
    variable: LocalVariable,
    before: list[Definition],
    at: int,
    depth: int,
    how: Evaluation[Value],
) -> Value | None:
    if not before:
        return how.initial(variable.name) if variable.at < 0 else None
    last = before[-1]
    if not last.block[0] <= at < last.block[1]:
        return None  # only some paths define it there
    return _result(context, variable, last, depth, how)


def _result(
    context: IndexContext, variable: LocalVariable, definition: Definition, depth: int, how: Evaluation[Value]
) -> Value | None:
    """The variable's value right after a definition, found once."""
    key = (how.kind, definition.declaration, definition.at)
    if key not in context.values:
        context.values[key] = None  # a value that needs itself is not known
        fresh: Value | None = _fresh_result(context, variable, definition, depth, how)
        context.values[key] = fresh
    known: Value | None = context.values[key]  # type: ignore[assignment]
    return known


def _fresh_result(
    context: IndexContext, variable: LocalVariable, definition: Definition, depth: int, how: Evaluation[Value]
) -> Value | None:
    step = step_of(context, definition, depth)
    if step is not None:
        before = reaching_value(context, variable, definition.at, depth + 1, how)
        return how.plus(before, step) if before is not None else None
    if definition.operator == "=" and definition.value is not None:
        return how.evaluate(definition.value, definition.at, depth + 1)
    return None


def step_of(context: IndexContext, definition: Definition, depth: int) -> AffineForm | None:
    """What a definition adds to the variable's old value, or None if it does something else."""
    value = without_parentheses(definition.value) if definition.value is not None else None
    operator = definition.operator
    if operator in ("++", "--"):
        return constant_form(number(1 if operator == "++" else -1))
    if value is None:
        return None
    if operator in ("+=", "-="):
        added = context.integer(value, definition.at, depth + 1)
        return added if operator == "+=" else -added
    if operator != "=" or value.type != "binary_expression" or operator_of(value) not in ("+", "-"):
        return None
    left, right = value.child_by_field_name("left"), value.child_by_field_name("right")
    if left is None or right is None or definition.at == definition.declaration:
        return None
    if text_of(without_parentheses(left)) == definition.name:
        added = context.integer(right, definition.at, depth + 1)
        return added if operator_of(value) == "+" else -added
    if text_of(without_parentheses(right)) == definition.name and operator_of(value) == "+":
        return context.integer(left, definition.at, depth + 1)
    return None


def _induction(
    context: IndexContext,
    variable: LocalVariable,
    inside: list[Definition],
    loop: LoopNode,
    at: int,
    depth: int,
    how: Evaluation[Value],
) -> Value | None:
    """The value before the loop plus ``step`` times the iteration's number, if there is one such update."""
    if len(inside) != 1:
        return None
    update = inside[0]
    body = loop.node.child_by_field_name("body")
    whole = (loop.node.start_byte, loop.node.end_byte)
    certain = update.block == whole or (body is not None and update.block == (body.start_byte, body.end_byte))
    if not certain or update.loops[-1] != loop.node.start_byte:
        return None
    step = step_of(context, update, depth)
    if step is None or not step.is_uniform:
        return None
    start = _before_loop(context, variable, loop, depth, how)
    if start is None:
        return None
    count = variable_form(context.loop_variable(loop)).scaled(step.constant)
    head = loop.node.child_by_field_name("update")
    in_head = head is not None and head.start_byte <= update.at < head.end_byte
    passed = step if not in_head and update.end <= at else constant_form(ZERO)
    return how.plus(start, count + passed)


def _before_loop(
    context: IndexContext, variable: LocalVariable, loop: LoopNode, depth: int, how: Evaluation[Value]
) -> Value | None:
    """The value when the loop begins: from its initialiser, else from before the loop."""
    initial = [
        d
        for d in context.definitions.definitions_of(variable)
        if loop.node.start_byte <= d.at < loop.repeated[0] and d.operator != "none"
    ]
    if initial:
        return _result(context, variable, initial[-1], depth + 1, how)
    return reaching_value(context, variable, loop.node.start_byte - 1, depth + 1, how)
