"""The conditions that hold at a place in a kernel."""

from __future__ import annotations

from itertools import pairwise

from tree_sitter import Node

from optiml_core.source.grammar import path_to
from optiml_core.source.tree_queries import operator_of, text_of, without_parentheses

_NEGATED = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
_LEAVES = frozenset({"return_statement", "continue_statement", "break_statement"})


Leaving = dict[int, list[tuple[int, list[str]]]]


def conditions_around(body: Node, at: int, known: Leaving | None = None) -> tuple[str, ...]:
    """The conditions (as texts, split at ``&&``) that hold at byte ``at``: those of the ``if`` and loops
    around it, and the contrary of those that made earlier statements leave the block."""
    found: list[str] = []
    path = path_to(body, at)
    for node, inner in pairwise(path):
        if node.type == "if_statement":
            condition = _condition(node)
            consequence = node.child_by_field_name("consequence")
            if condition is not None and consequence is not None and inner.start_byte == consequence.start_byte:
                found.extend(_parts(condition))
            elif condition is not None and inner.type == "else_clause":
                found.extend(_negations(condition))
        elif node.type in ("for_statement", "while_statement"):
            condition, repeated = _condition(node), node.child_by_field_name("body")
            if condition is not None and repeated is not None and inner.start_byte == repeated.start_byte:
                found.extend(_parts(condition))
        elif node.type == "compound_statement":
            leaving = known.get(node.start_byte) if known is not None else None
            if leaving is None:
                leaving = _leaving(node)
                if known is not None:
                    known[node.start_byte] = leaving
            for start, texts in leaving:
                if start < inner.start_byte:
                    found.extend(texts)
    return tuple(dict.fromkeys(found))


def _leaving(block: Node) -> list[tuple[int, list[str]]]:
    """The ``if`` statements of a block that leave it: where each stands, and what holds behind it."""
    found: list[tuple[int, list[str]]] = []
    for statement in block.named_children:
        if statement.type == "if_statement" and _leaves(statement):
            condition = _condition(statement)
            found.append((statement.start_byte, _negations(condition) if condition is not None else []))
    return found


def _condition(node: Node) -> Node | None:
    condition = node.child_by_field_name("condition")
    if condition is not None and condition.type == "condition_clause":
        condition = condition.child_by_field_name("value")
    return without_parentheses(condition) if condition is not None else None


def _leaves(statement: Node) -> bool:
    """Whether the branch of an ``if`` without ``else`` always leaves the block."""
    if statement.child_by_field_name("alternative") is not None:
        return False
    branch = statement.child_by_field_name("consequence")
    if branch is not None and branch.type == "compound_statement":
        children = [c for c in branch.named_children if c.type != "comment"]
        branch = children[-1] if children else None
    return branch is not None and branch.type in _LEAVES


def _parts(condition: Node) -> list[str]:
    condition = without_parentheses(condition)
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    if condition.type == "binary_expression" and operator_of(condition) in ("&&", "and") and left and right:
        return [*_parts(left), *_parts(right)]
    return [text_of(condition)]


def _negations(condition: Node) -> list[str]:
    """The parts of the contrary: of ``a || b`` both contraries, of ``a && b`` the whole."""
    condition = without_parentheses(condition)
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    if condition.type == "binary_expression" and left is not None and right is not None:
        operator = operator_of(condition)
        if operator in ("||", "or"):
            return [*_negations(left), *_negations(right)]
        if operator in _NEGATED:
            return [f"{text_of(left)} {_NEGATED[operator]} {text_of(right)}"]
    if condition.type == "unary_expression" and operator_of(condition) == "!":
        argument = condition.child_by_field_name("argument")
        return _parts(argument) if argument is not None else []
    return [f"!({text_of(condition)})"]
