"""The memory accesses of a piece of kernel code, with pointer locals resolved to the parameter behind them."""

from __future__ import annotations

import re
from typing import Literal

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.kernel_body import WRITES, KernelBody
from optiml_core.rewrites.polynomials import Polynomial, add, constant, subtract
from optiml_core.rewrites.syntax import (
    ancestors,
    arguments_of,
    called_name,
    contains,
    field,
    operator_of,
    text_of,
    unwrap,
    walk_types,
)

AccessKind = Literal["load", "store", "update", "address"]
Space = Literal["parameter", "shared", "local", "unknown"]

_SHOUTED = re.compile(r"[A-Z][A-Z0-9_]{2,}")

LOAD_CALLS = frozenset({"__ldg", "__ldcg", "__ldca", "__ldcs", "__ldlu", "__ldcv"})


@frozen
class Access:
    """One subscript or dereference.

    ``array``: the parameter, shared array or local array it goes to, or its text where unknown.
    ``indices``: one polynomial per dimension (one for a pointer). ``update`` is a compound assignment.
    """

    node: Node
    array: str
    space: Space
    indices: tuple[Polynomial, ...]
    kind: AccessKind

    @property
    def index(self) -> Polynomial:
        return self.indices[0]

    @property
    def writes(self) -> bool:
        return self.kind in ("store", "update")

    @property
    def reads(self) -> bool:
        return self.kind in ("load", "update", "address")


def accesses_in(body: KernelBody, node: Node, keep: frozenset[str] = frozenset()) -> tuple[Access, ...]:
    """The accesses at or below ``node``, in source order; names in ``keep`` stay atoms of the indexes."""
    found = []
    for current in walk_types(node, "subscript_expression", "pointer_expression"):
        if current.type == "pointer_expression" and not text_of(current).startswith("*"):
            continue
        if _is_inner_dimension(current):
            continue
        found.append(_access(body, current, keep))
    return tuple(found)


def _is_inner_dimension(node: Node) -> bool:
    parent = node.parent
    if parent is None or parent.type != "subscript_expression" or node.type != "subscript_expression":
        return False
    return field(parent, "argument").id == node.id


def _access(body: KernelBody, node: Node, keep: frozenset[str]) -> Access:
    if node.type == "pointer_expression":
        base = pointer_target(body, field(node, "argument"), keep)
        name, offset = ("", constant(0)) if base is None else base
        indices: tuple[Polynomial, ...] = (offset,)
    else:
        subscripts: list[Polynomial] = []
        current = node
        while current.type == "subscript_expression":
            inner = [child for child in field(current, "indices").named_children if child.type != "comment"]
            subscripts.insert(0, body.polynomial(inner[0], keep) if len(inner) == 1 else constant(0))
            current = unwrap(field(current, "argument"))
        base = pointer_target(body, current, keep)
        name, offset = (text_of(current), constant(0)) if base is None else base
        indices = (add(offset, subscripts[0]), *subscripts[1:])
    return Access(node, name or text_of(node), space_of(body, name), indices, _kind(body, node))


def space_of(body: KernelBody, name: str) -> Space:
    if name in body.parameter_names:
        return "parameter"
    variable = body.locals.get(name)
    if variable is None:
        return "unknown"
    if "__shared__" in variable.type or "__shared__" in text_of(variable.declaration):
        return "shared"
    return "local" if variable.is_array else "unknown"


def _kind(body: KernelBody, node: Node) -> AccessKind:
    kind = _syntactic_kind(node)
    return "address" if kind == "load" and _may_be_written_by_a_call(body, node) else kind


def _may_be_written_by_a_call(body: KernelBody, node: Node) -> bool:
    """Whether a macro, or a function that takes a reference, may write what looks like a value in its call."""
    for around in ancestors(node, body.body):
        name = called_name(around)
        if around.type == "call_expression" and name is not None:
            for macro in body.unit.macros:
                if macro.name == name and macro.parameters is not None and WRITES.search(macro.body):
                    return True
            if _SHOUTED.fullmatch(name) and all(macro.name != name for macro in body.unit.macros):
                return True  # a macro of an included file
            for function in body.unit.device_functions:
                given = [contains(argument, node) for argument in arguments_of(around)]
                if function.name == name and any(
                    held and parameter.is_reference and not parameter.is_const
                    for held, parameter in zip(given, function.parameters, strict=False)
                ):
                    return True
        if around.type == "subscript_expression" and contains(field(around, "indices"), node):
            return False  # only an index
    return False


def _syntactic_kind(node: Node) -> AccessKind:
    outer = node
    parent = node.parent
    while parent is not None and parent.type in ("parenthesized_expression", "field_expression"):
        outer, parent = parent, parent.parent
    if parent is None:
        return "load"
    if parent.type == "assignment_expression" and field(parent, "left").id == outer.id:
        return "store" if operator_of(parent) == "=" else "update"
    if parent.type == "update_expression":
        return "update"
    if parent.type == "pointer_expression" and text_of(parent).startswith("&"):
        call = parent.parent.parent if parent.parent is not None else None
        if call is not None and called_name(call) in LOAD_CALLS:
            return "load"
        return "address"
    return "load"


def pointer_target(
    body: KernelBody, node: Node, keep: frozenset[str] = frozenset(), depth: int = 0
) -> tuple[str, Polynomial] | None:
    """The array that a pointer expression points into, and by how many elements; None if it is not clear."""
    node = unwrap(node)
    if depth > 8:
        return None
    if node.type == "identifier":
        name = text_of(node)
        variable = body.locals.get(name)
        if name in body.definitions and variable is not None and variable.is_pointer:
            if name in keep:
                return name, constant(0)
            return pointer_target(body, body.definitions[name], keep, depth + 1)
        if variable is not None and not variable.is_array and name not in body.parameter_names:
            return None
        return None if name in body.assigned else (name, constant(0))
    if node.type == "binary_expression" and operator_of(node) in ("+", "-"):
        left = pointer_target(body, field(node, "left"), keep, depth + 1)
        if left is not None:
            offset = body.polynomial(field(node, "right"), keep)
            return left[0], add(left[1], offset) if operator_of(node) == "+" else subtract(left[1], offset)
        if operator_of(node) == "+":
            right = pointer_target(body, field(node, "right"), keep, depth + 1)
            if right is not None:
                return right[0], add(right[1], body.polynomial(field(node, "left"), keep))
        return None
    if node.type == "pointer_expression" and text_of(node).startswith("&"):
        inner = unwrap(field(node, "argument"))
        if inner.type == "subscript_expression":
            made = _access(body, inner, keep)
            if len(made.indices) == 1 and made.space != "unknown":
                return made.array, made.index
        return None
    return None


def written_arrays(body: KernelBody, node: Node) -> frozenset[str]:
    """Arrays that code at or below ``node`` stores to, or whose address it hands on."""
    return frozenset(access.array for access in accesses_in(body, node) if access.writes or access.kind == "address")


def escaping_pointers(body: KernelBody, node: Node) -> frozenset[str]:
    """Arrays handed to a call as pointers (a device function or an atomic may read and write them)."""
    found = set()
    for call in walk_types(node, "call_expression"):
        if called_name(call) in LOAD_CALLS:
            continue
        for argument in arguments_of(call):
            target = pointer_target(body, argument)
            if target is not None and is_pointer_name(body, target[0]):
                found.add(target[0])
    return frozenset(found)


def is_pointer_name(body: KernelBody, name: str) -> bool:
    """Whether a name is a pointer parameter, a shared array or a local array."""
    if any(parameter.name == name and parameter.is_pointer for parameter in body.kernel.parameters):
        return True
    variable = body.locals.get(name)
    return variable is not None and (variable.is_pointer or variable.is_array)
