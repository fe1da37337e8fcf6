"""Whether two pointer arguments can reach the same memory: by types, ``__restrict__`` and launch sites."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import LaunchSite, Parameter
from optiml_core.rewrites.callers import launches_elsewhere, unknown_callers
from optiml_core.rewrites.context import OutsideLaunch, Refusal, RewriteContext
from optiml_core.rewrites.syntax import (
    ancestors,
    arguments_of,
    assignments_in,
    called_name,
    declared_variables,
    names_in,
    text_of,
    unwrap,
    walk_types,
)
from optiml_core.source import TranslationUnit

_ALLOCATIONS = frozenset({"cudaMalloc", "cudaMallocManaged", "cudaMallocAsync", "cudaMallocHost", "cudaHostAlloc"})
_BYTES = frozenset({"int8", "uint8"})  # a char pointer may look at anything


@frozen
class NoAlias:
    """Why the arrays do not overlap: proved (``note`` empty), or allowed by the user (``note`` for not_checked)."""

    note: str = ""


def no_alias(context: RewriteContext, written: str, others: Iterable[str]) -> NoAlias | Refusal:
    """Whether no element of ``written`` is an element of one of ``others`` too. All are parameter names."""
    parameters = {parameter.name: parameter for parameter in context.kernel.parameters}
    doubtful = []
    for other in sorted(set(others) - {written}):
        if written not in parameters or other not in parameters:
            continue  # shared and local arrays are no parameter's memory
        if _apart_by_declaration(parameters[written], parameters[other]):
            continue
        doubtful.append(other)
    if not doubtful:
        return NoAlias()
    unproved = _apart_at_launches(context, [written, *doubtful])
    if unproved is None:
        return NoAlias()
    names = ", ".join(f"`{name}`" for name in doubtful)
    if "no-alias" in context.allow:
        return NoAlias(f"{written} does not overlap {', '.join(doubtful)}")
    return Refusal(f"`{written}` may overlap {names}: {unproved} (allow `no-alias`)")


def same_or_apart(
    context: RewriteContext, written: str, same_place: Iterable[str], elsewhere: Iterable[str]
) -> tuple[str, ...] | Refusal:
    """Notes for not_checked where loads may pass stores to ``written`` of other rounds, or a Refusal.

    ``same_place``: arrays that are read at the index at which ``written`` is stored to. They may be the very same
    buffer, which verification runs; only a partial overlap would matter. ``elsewhere``: arrays read at other indexes.
    """
    proof = no_alias(context, written, elsewhere)
    if isinstance(proof, Refusal):
        return proof
    notes = [proof.note] if proof.note else []
    same = sorted(set(same_place) - {written} - set(elsewhere))
    if same and _overlap_is_possible(context, written, same):
        notes.append(f"buffers that overlap without being the same ({', '.join(sorted({written, *same}))})")
    return tuple(notes)


def _overlap_is_possible(context: RewriteContext, written: str, others: list[str]) -> bool:
    proof = no_alias(context, written, others)
    return isinstance(proof, Refusal) or bool(proof.note)


def _apart_by_declaration(first: Parameter, second: Parameter) -> bool:
    if first.is_restrict or second.is_restrict:
        return True
    one, other = first.element, second.element
    if one is None or other is None or not one.dtype or not other.dtype:
        return False
    if one.dtype in _BYTES or other.dtype in _BYTES:
        return False
    # Objects of different scalar types are not accessed through each other's pointers (C++ [basic.lval]);
    # signed and unsigned of one size may be, and a vector of floats is made of floats.
    return one.dtype.lstrip("u") != other.dtype.lstrip("u")


def _apart_at_launches(context: RewriteContext, names: list[str]) -> str | None:
    """None if every launch is known and passes separate allocations for ``names``, else what is not known."""
    refusal = unknown_callers(context)
    if refusal is not None:
        return refusal.reason
    positions = {parameter.name: index for index, parameter in enumerate(context.kernel.parameters)}
    sites = [OutsideLaunch(context.unit, site) for site in context.unit.launches_of(context.kernel)]
    for outside in (*sites, *launches_elsewhere(context)):
        line = outside.unit.source.line_of(outside.site.range.start_byte)
        passed = [outside.site.arguments[positions[n]] for n in names if positions[n] < len(outside.site.arguments)]
        if len(set(passed)) != len(names) or not all(_is_own_allocation(outside.unit, outside.site, p) for p in passed):
            return f"the launch in line {line} does not pass separate allocations that can be seen"
    return None


def _is_own_allocation(unit: TranslationUnit, site: LaunchSite, argument: str) -> bool:
    """Whether the argument is a variable that holds nothing but the result of one allocation call of its own."""
    argument = argument.strip()
    if not argument.isidentifier():
        return False
    scope = _scope(unit, site, argument)
    if scope is None:
        return False
    if any(text_of(made.left) == argument for made in assignments_in(scope)):
        return False
    allocations = 0
    for call in walk_types(scope, "call_expression"):
        for index, given in enumerate(arguments_of(call)):
            if not _takes_address(given, argument):
                continue
            if index != 0 or called_name(call) not in _ALLOCATIONS:
                return False
            allocations += 1
    return allocations == 1


def _scope(unit: TranslationUnit, site: LaunchSite, name: str) -> Node | None:
    """Where the variable lives: the host function that declares it, or the file for a global; None for a parameter."""
    node = unit.tree.root_node.named_descendant_for_byte_range(site.range.start_byte, site.range.end_byte)
    function = None if node is None else next((n for n in ancestors(node) if n.type == "function_definition"), None)
    if function is not None:
        found = [
            variable
            for declaration in walk_types(function, "declaration")
            for variable in declared_variables(declaration)
            if variable.name == name
        ]
        if found:
            empty = all(v.value is None or text_of(v.value) in ("NULL", "nullptr", "0") for v in found)
            return function if len(found) == 1 and found[0].is_pointer and empty else None
        declarator = function.child_by_field_name("declarator")
        if declarator is not None and name in names_in(declarator):
            return None
    globals_ = [
        v
        for child in unit.tree.root_node.named_children
        for v in declared_variables(child)
        if v.name == name and v.is_pointer and v.value is None and "static" in v.type
    ]
    return unit.tree.root_node if len(globals_) == 1 else None


def _takes_address(node: Node, name: str) -> bool:
    """``&x``, ``(void**)&x``"""
    node = unwrap(node)
    if node.type == "cast_expression":
        value = node.child_by_field_name("value")
        return value is not None and _takes_address(value, name)
    if node.type == "call_expression" and "cast" in (called_name(node) or ""):
        return any(_takes_address(one, name) for one in arguments_of(node))
    if node.type != "pointer_expression" or not text_of(node).startswith("&"):
        return False
    argument = node.child_by_field_name("argument")
    return argument is not None and text_of(unwrap(argument)) == name
