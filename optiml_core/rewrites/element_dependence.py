"""Which values of a kernel's work belong to one element, and which are the same for all elements of the launch."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.syntax import (
    assignments_in,
    contains,
    declared_variables,
    field,
    names_in,
    text_of,
    walk_types,
)

_CONTROL = ("if_statement", "for_statement", "while_statement", "do_statement", "switch_statement")


@frozen
class ElementNames:
    """``own``: variables whose value depends on the element, the index itself among them."""

    own: frozenset[str]

    def depends(self, node: Node) -> bool:
        return bool(names_in(node) & self.own)


def element_names(work: tuple[Node, ...], index: str, stored: Iterable[str]) -> ElementNames:
    """Every name of ``work`` that depends on ``index``, by data or by the branches under which it is assigned.

    ``stored``: arrays that the work stores to; what is loaded from them belongs to the element too.
    """
    own = {index, *stored}
    while True:
        before = len(own)
        for node in work:
            _add(node, own)
        if len(own) == before:
            return ElementNames(frozenset(own))


def _add(node: Node, own: set[str]) -> None:
    for declaration in walk_types(node, "declaration"):
        for variable in declared_variables(declaration):
            if variable.value is not None and names_in(variable.value) & own:
                own.add(variable.name)
    for made in assignments_in(node):
        target = _base(made.left)
        if target is None:
            continue
        parts = names_in(made.node) - {target} if made.operator == "=" else names_in(made.node)
        if parts & own:
            own.add(target)
    for control in walk_types(node, *_CONTROL):
        if not _head_names(control) & own:
            continue
        for made in assignments_in(control):
            target = _base(made.left)
            if target is not None:
                own.add(target)


def _head_names(control: Node) -> frozenset[str]:
    """Names in a statement's condition, or in all of a for loop's head."""
    found: frozenset[str] = frozenset()
    for name in ("condition", "initializer", "update"):
        part = control.child_by_field_name(name)
        if part is not None:
            found |= names_in(part)
    return found


def head_depends(control: Node, names: ElementNames) -> bool:
    return bool(_head_names(control) & names.own)


def _base(target: Node) -> str | None:
    """``a`` of ``a``, ``a.x`` and ``a[2]``; None for what goes through a pointer expression."""
    current = target
    while current.type in ("field_expression", "subscript_expression", "parenthesized_expression"):
        inner = current.child_by_field_name("argument")
        if inner is None:
            named = current.named_children
            if len(named) != 1:
                return None
            inner = named[0]
        current = inner
    return text_of(current) if current.type == "identifier" else None


def used_outside(name: str, group: tuple[Node, ...], work: tuple[Node, ...]) -> bool:
    """Whether a name stands anywhere in the work but in the statements of ``group``."""
    return any(
        text_of(one) == name and not any(contains(inner, one) for inner in group)
        for node in work
        for one in walk_types(node, "identifier")
    )


def loop_body(loop: Node) -> Node:
    return field(loop, "body")
