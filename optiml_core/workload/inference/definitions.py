"""Which of a variable's events decides its value at a place: scopes, order and conditions."""

from __future__ import annotations

from tree_sitter import Node

# The modules of this folder evaluate each other's parts, so they import each other as modules.
from optiml_core.workload.inference import evaluation
from optiml_core.workload.inference.context import Context, Frame
from optiml_core.workload.inference.program import Event
from optiml_core.workload.inference.syntax import (
    Fragment,
)
from optiml_core.workload.inference.values import Quantity

_SCOPES = {"compound_statement", "for_statement", "for_range_loop", "lambda_expression", "function_definition"}


def latest_event(context: Context, path: str, frame: Frame, position: int) -> Event | None:
    """The last event before ``position`` that is reached for certain, else the last that may be; None for no event.

    Events of a like-named variable in a scope that does not contain the position do not count.
    """
    events = [event for event in frame.function.events.get(path, ()) if event.start < position]
    declaration = _visible_declaration(events, position)
    if declaration is None and any(_is_declaration(event) for event in events):
        # All declarations are in other scopes, and assignments to those do not concern us.
        first = min(event.start for event in events if _is_declaration(event))
        events = [event for event in events if event.start < first]
    start = declaration.start if declaration is not None else 0
    possible: Event | None = None
    for event in reversed(events):
        if event.start < start or (_is_declaration(event) and event is not declaration):
            continue
        if _in_step_of_loop(event.node, position):
            continue
        reached = is_reached(context, event, frame, position)
        if reached is None:
            possible = possible or event
        elif reached:
            # A declaration without a value gives way to an assignment that may have happened.
            empty = event.kind == "declared" and not event.is_array
            return possible if empty and possible is not None else event
    return possible


def _is_declaration(event: Event) -> bool:
    return event.kind in ("declared", "constructed", "element") or bool(event.type)


def _visible_declaration(events: list[Event], position: int) -> Event | None:
    for event in reversed(events):
        if _is_declaration(event):
            scope = _scope(event.node)
            if scope is None or scope.start_byte <= position < scope.end_byte:
                return event
    return None


def _scope(node: Node) -> Node | None:
    if node.type == "for_range_loop":
        return node
    parent = node.parent
    while parent is not None and parent.type not in _SCOPES:
        parent = parent.parent
    return parent


def _in_step_of_loop(node: Node, position: int) -> bool:
    """Whether the event is the step of a loop around the position: it has not happened in the first iteration."""
    child, parent = node, node.parent
    while parent is not None and parent.type not in ("compound_statement", "function_definition"):
        if parent.type == "for_statement" and parent.start_byte <= position < parent.end_byte:
            body = parent.child_by_field_name("body")
            return child != body and child != parent.child_by_field_name("initializer")
        child, parent = parent, parent.parent
    return False


def is_reached(context: Context, event: Event, frame: Frame, position: int) -> bool | None:
    """Whether the event has happened once ``position`` is reached; None where a condition is not known."""
    certain: bool | None = True
    child, parent = event.node, event.node.parent
    while parent is not None and child != frame.function.node:
        if child.start_byte <= position < child.end_byte:
            break
        outcome = _passes(context, parent, child, event, frame, position)
        if outcome is False:
            return False
        certain = certain if outcome else None
        child, parent = parent, parent.parent
    return certain


def _passes(context: Context, parent: Node, child: Node, event: Event, frame: Frame, position: int) -> bool | None:
    """Whether control goes from ``parent`` into its ``child``."""
    around = parent.start_byte <= position < parent.end_byte
    if parent.type == "if_statement":
        if child in (parent.child_by_field_name("condition"), None):
            return True
        if around:
            return False  # the position is in the other branch
        truth = _truth(context, parent.child_by_field_name("condition"), frame, parent.start_byte)
        if truth is None:
            return None
        return truth == (child == parent.child_by_field_name("consequence"))
    if parent.type == "case_statement":
        return _case(context, parent, frame, position)
    if parent.type in ("while_statement", "for_statement", "for_range_loop", "do_statement"):
        if around or parent.type in ("for_range_loop", "do_statement"):
            return True
        body = parent.child_by_field_name("body")
        if body is None or child != body:
            return True
        entered = _truth(context, parent.child_by_field_name("condition"), frame, body.start_byte)
        if entered is False:
            return False
        # How often a change happened is not followed; a plain assignment is taken from the first iteration.
        return None if event.kind in ("compound", "step") else True
    if parent.type in ("lambda_expression", "catch_clause", "conditional_expression"):
        return None
    return True


def _truth(context: Context, condition: Node | None, frame: Frame, position: int) -> bool | None:
    if condition is None:
        return None
    value = evaluation.evaluate(context, Fragment(condition, frame.function.data), frame, position)
    return bool(value.value) if isinstance(value, Quantity) else None


def _case(context: Context, case: Node, frame: Frame, position: int) -> bool | None:
    if case.start_byte <= position < case.end_byte:
        return True
    switch = case.parent.parent if case.parent is not None else None
    label = case.child_by_field_name("value")
    condition = switch.child_by_field_name("condition") if switch is not None else None
    if label is None or condition is None:
        return None
    data = frame.function.data
    one = evaluation.evaluate(context, Fragment(label, data), frame, position)
    other = evaluation.evaluate(context, Fragment(condition, data), frame, case.start_byte)
    if isinstance(one, Quantity) and isinstance(other, Quantity):
        return one.value == other.value
    return None
