"""What a pointer expression points to: an array that has a name, and an offset into it."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from attrs import evolve
from tree_sitter import Node

from optiml_core.source.affine_form import PointerValue, constant_form
from optiml_core.source.builtin_types import element_type_of
from optiml_core.source.declarations import resolve_alias
from optiml_core.source.definitions import LocalVariable
from optiml_core.source.polynomials import ZERO, Polynomial, number
from optiml_core.source.reaching import Evaluation, reaching_value
from optiml_core.source.tree_queries import called_name, operator_of, text_of, without_parentheses

if TYPE_CHECKING:
    from optiml_core.source.index_forms import IndexContext

_DEEPEST = 24
_CASTS = ("reinterpret_cast", "static_cast", "const_cast")


def pointer_value(context: IndexContext, node: Node, at: int, depth: int) -> PointerValue | None:
    """The array and offset of a pointer expression as evaluated at byte ``at``, or None."""
    if depth > _DEEPEST:
        return None
    node = without_parentheses(node)
    kind = node.type
    if kind == "identifier":
        return _named(context, text_of(node), at, depth)
    if kind == "field_expression":
        return context.arrays.get(text_of(node).replace(" ", ""))
    if kind == "binary_expression" and operator_of(node) in ("+", "-"):
        return _sum(context, node, at, depth)
    if kind == "pointer_expression" and operator_of(node) == "&":
        argument = node.child_by_field_name("argument")
        return address_of(context, argument, at, depth + 1) if argument is not None else None
    if kind == "cast_expression":
        target, value = text_of(node.child_by_field_name("type")), node.child_by_field_name("value")
        return _cast(context, target, value, at, depth)
    if kind == "call_expression":
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is not None and arguments is not None and called_name(function) in _CASTS:
            target = text_of(function.child_by_field_name("arguments")).removeprefix("<").removesuffix(">")
            values = arguments.named_children
            return _cast(context, target, values[0], at, depth) if len(values) == 1 else None
        return None
    if kind == "subscript_expression":
        return _row(context, node, at, depth)
    if kind == "conditional_expression":
        return None
    return None


def _named(context: IndexContext, name: str, at: int, depth: int) -> PointerValue | None:
    variable = context.definitions.variable(name, at)
    if variable is None:
        variable = context.definitions.parameters.get(name)
        known = context.arrays.get(name)
        if variable is None or known is None:
            return known
        return _follow(context, variable, at, depth)
    if variable.extents:
        space = "shared" if variable.is_static_shared else "local"
        return PointerValue(name, constant_form(ZERO), variable.type.replace("const ", "").strip(), space)
    if "*" in variable.type or "auto" in variable.type:
        return _follow(context, variable, at, depth)
    return None


def _follow(context: IndexContext, variable: LocalVariable, at: int, depth: int) -> PointerValue | None:
    how = Evaluation[PointerValue](
        "pointer",
        lambda node, where, deeper: pointer_value(context, node, where, deeper),
        lambda value, step: evolve(value, offset=value.offset + step),
        lambda name: context.arrays.get(name),
    )
    return reaching_value(context, variable, at, depth, how)


def _sum(context: IndexContext, node: Node, at: int, depth: int) -> PointerValue | None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None:
        return None
    base = pointer_value(context, left, at, depth + 1)
    if base is not None:
        added = context.integer(right, at, depth + 1)
        return evolve(base, offset=base.offset + (added if operator_of(node) == "+" else -added))
    base = pointer_value(context, right, at, depth + 1) if operator_of(node) == "+" else None
    if base is None:
        return None
    return evolve(base, offset=base.offset + context.integer(left, at, depth + 1))


def size_of(context: IndexContext, element: str) -> int | None:
    """The size in bytes of a builtin element type, through the file's aliases."""
    known = element_type_of(resolve_alias(element, context.aliases))
    return known.size if known is not None else None


def _cast(context: IndexContext, target: str, value: Node | None, at: int, depth: int) -> PointerValue | None:
    """A cast to another pointer type: the offset is counted in elements of the new type."""
    base = pointer_value(context, value, at, depth + 1) if value is not None else None
    target = resolve_alias(target, context.aliases)
    if base is None or target.count("*") != 1:
        return None
    element = target.replace("const", " ").replace("volatile", " ").replace("__restrict__", " ").replace("*", " ")
    element = " ".join(element.split())
    if element in ("void", base.element):
        return base
    old, new = size_of(context, base.element), size_of(context, element)
    if base.offset == constant_form(ZERO):
        return evolve(base, element=element)
    if old is None or new is None:
        return None
    # A misaligned vector access is undefined, so the offset is a multiple of the new size, term by term.
    common = gcd(old, new)
    offset = base.offset.scaled(number(old // common)).shared_out(new // common)
    return evolve(base, offset=offset, element=element)


def extents_of(context: IndexContext, name: str, at: int) -> tuple[Polynomial | None, ...]:
    """The extents of an array by name, None for an unknown one."""
    variable = context.definitions.variable(name, at)
    if variable is None:
        return context.extents.get(name, ())
    found: list[Polynomial | None] = []
    for extent in variable.extents:
        form = context.integer(extent, at) if extent is not None else None
        found.append(form.constant if form is not None and form.is_uniform else None)
    return tuple(found)


def subscripts(node: Node) -> tuple[Node, list[Node]]:
    """``a[i][j]`` becomes ``a`` and its indices from the left."""
    indices: list[Node] = []
    current = without_parentheses(node)
    while current.type == "subscript_expression":
        listed, argument = current.child_by_field_name("indices"), current.child_by_field_name("argument")
        if listed is None or argument is None or listed.named_child_count != 1:
            break
        indices.insert(0, listed.named_children[0])
        current = without_parentheses(argument)
    return current, indices


def address_of(context: IndexContext, node: Node, at: int, depth: int) -> PointerValue | None:
    """The array and offset of an lvalue: ``a[i]``, ``a[i][j]``, ``*p``, ``p->x``; of ``a[i].x`` those of ``a[i]``."""
    if depth > _DEEPEST:
        return None
    node = without_parentheses(node)
    if node.type == "subscript_expression":
        base_node, indices = subscripts(node)
        base = pointer_value(context, base_node, at, depth + 1)
        if base is None:
            return None
        extents = extents_of(context, base.base, at) if base_node.type == "identifier" else ()
        offset = base.offset
        if len(indices) == 1 and len(extents) <= 1:
            return evolve(base, offset=offset + context.integer(indices[0], at, depth + 1))
        if len(indices) > len(extents):
            return None
        for position, index in enumerate(indices):
            scale: Polynomial | None = number(1)
            for extent in extents[position + 1 :]:
                scale = scale * extent if scale is not None and extent is not None else None
            if scale is None:
                return None
            offset = offset + context.integer(index, at, depth + 1).scaled(scale)
        return evolve(base, offset=offset)
    if node.type == "pointer_expression" and operator_of(node) == "*":
        argument = node.child_by_field_name("argument")
        return pointer_value(context, argument, at, depth + 1) if argument is not None else None
    if node.type == "field_expression":
        argument = node.child_by_field_name("argument")
        if argument is None:
            return None
        if operator_of(node) == "->":
            return pointer_value(context, argument, at, depth + 1)
        return address_of(context, argument, at, depth + 1)
    return None


def _row(context: IndexContext, node: Node, at: int, depth: int) -> PointerValue | None:
    """``tile[i]`` of a two-dimensional array, used as a pointer to its row."""
    base_node, indices = subscripts(node)
    if base_node.type != "identifier":
        return None
    extents = extents_of(context, text_of(base_node), at)
    return address_of(context, node, at, depth + 1) if len(indices) < len(extents) else None
