"""The head of a loop: its variable, and the texts of start, bound and step."""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.source.tree_queries import (
    declarators_of,
    operator_of,
    text_of,
    without_parentheses,
    writes_in,
)

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!=", "==": "=="}


@frozen
class LoopHead:
    """``variable`` is None where the loop counts nothing that the head shows. ``comparison`` has the
    variable on its left. ``step`` is signed (``"1"``, ``"-2"``, ``"blockDim.x"``) or, for other updates,
    as written (``">>= 1"``)."""

    variable: str | None
    start: str | None
    comparison: str | None
    bound: str | None
    step: str | None


def head_variable(node: Node) -> str | None:
    """The variable that a loop counts in: the one its head updates, else the one its condition compares
    and its body updates."""
    return read_head(node).variable


def read_head(node: Node) -> LoopHead:
    """The head of a ``for``, ``while`` or ``do`` loop."""
    if node.type == "for_range_loop":
        names = [name for name, _ in declarators_of(node)]
        return LoopHead(names[0] if names else None, None, None, None, None)
    condition = node.child_by_field_name("condition")
    if condition is not None and condition.type == "condition_clause":
        condition = condition.child_by_field_name("value")
    update = node.child_by_field_name("update")
    body = node.child_by_field_name("body")
    compared = _comparisons(condition)
    candidates = _updates(update if update is not None else body, direct_only=update is None)
    variable = next((name for name, _, _ in compared if name in candidates), None)
    if variable is None and update is not None and candidates:
        variable = next(iter(candidates))
    if variable is None:
        return LoopHead(None, None, None, None, None)
    comparison, bound = next(((c, b) for name, c, b in compared if name == variable), (None, None))
    return LoopHead(variable, _start(node, variable), comparison, bound, _step_text(candidates[variable]))


def _comparisons(condition: Node | None) -> list[tuple[str, str, str]]:
    """(variable, comparison, bound) for each comparison of an identifier in a condition joined by ``&&``."""
    if condition is None:
        return []
    condition = without_parentheses(condition)
    if condition.type != "binary_expression":
        return [(text_of(condition), "!=", "0")] if condition.type == "identifier" else []
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    operator = operator_of(condition)
    if operator == "&&":
        return [*_comparisons(left), *_comparisons(right)]
    if operator not in _MIRRORED or left is None or right is None:
        return []
    found: list[tuple[str, str, str]] = []
    if without_parentheses(left).type == "identifier":
        found.append((text_of(without_parentheses(left)), operator, text_of(right)))
    if without_parentheses(right).type == "identifier":
        found.append((text_of(without_parentheses(right)), _MIRRORED[operator], text_of(left)))
    return found


def _updates(node: Node | None, *, direct_only: bool) -> dict[str, Node]:
    """Variables that a node updates, with the updating expression; of a body only its own statements."""
    found: dict[str, Node] = {}
    if node is None:
        return found
    for target, expression in writes_in(node):
        if target.type != "identifier":
            continue
        if direct_only:
            statement = expression.parent
            if statement is None or statement.parent != node:
                continue
            if (
                expression.type == "assignment_expression"
                and operator_of(expression) == "="
                and not _is_self(expression)
            ):
                continue
        found.setdefault(text_of(target), expression)
    return found


def _is_self(expression: Node) -> bool:
    left, right = expression.child_by_field_name("left"), expression.child_by_field_name("right")
    return right is not None and text_of(left) in text_of(right)


def _start(node: Node, variable: str) -> str | None:
    initializer = node.child_by_field_name("initializer")
    if initializer is None:
        return None
    for name, declarator in declarators_of(initializer):
        if name == variable and declarator.type == "init_declarator":
            return text_of(declarator.child_by_field_name("value")) or None
    for target, expression in writes_in(initializer):
        if text_of(target) == variable and operator_of(expression) == "=":
            return text_of(expression.child_by_field_name("right"))
    return None


def _step_text(expression: Node) -> str:
    operator = operator_of(expression)
    if expression.type == "update_expression":
        return "1" if operator == "++" else "-1"
    right = expression.child_by_field_name("right")
    text = text_of(right)
    if operator == "+=":
        return text
    if operator == "-=":
        return f"-{text}" if right is not None and right.type in ("identifier", "number_literal") else f"-({text})"
    if operator == "=" and right is not None and right.type == "binary_expression":
        left = text_of(expression.child_by_field_name("left"))
        first, second = right.child_by_field_name("left"), right.child_by_field_name("right")
        inner = operator_of(right)
        if inner in ("+", "-") and text_of(first) == left:
            return text_of(second) if inner == "+" else f"-({text_of(second)})"
        if inner == "+" and text_of(second) == left:
            return text_of(first)
    return f"{operator} {text}"
