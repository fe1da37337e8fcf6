"""Promises that buffers do not overlap, and that inputs are only read, so that loads may be cached and moved.

The promise is a fact about callers. It is made where every launch is known to pass separate
allocations, or where the user allows ``no-alias``.
"""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit, Parameter
from optiml_core.rewrites.aliasing import no_alias
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, read_kernel
from optiml_core.rewrites.layout import code_of, edit
from optiml_core.rewrites.memory import accesses_in, escaping_pointers
from optiml_core.rewrites.syntax import ancestors, declared_identifier, field, text_of, walk_types


@frozen
class _Found:
    body: KernelBody
    pointers: tuple[Parameter, ...]
    read_only: frozenset[str]
    notes: tuple[str, ...]


def _recognise(context: RewriteContext) -> _Found | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    pointers = tuple(p for p in context.kernel.parameters if p.is_pointer and p.type.count("*") == 1)
    if not pointers:
        return Refusal("the kernel has no pointer parameters")
    accesses = accesses_in(body, body.body)
    escaping = escaping_pointers(body, body.body)
    if any(access.space == "unknown" for access in accesses):
        return Refusal("not every access is known to go to one parameter")
    written = {access.array for access in accesses if access.writes or access.kind == "address"} | escaping
    read_only = frozenset(
        p.name
        for p in pointers
        if p.name not in written and p.name not in body.assigned and "volatile" not in p.type and _never_kept(body, p)
    )
    todo = [p for p in pointers if not p.is_restrict]
    if not todo and all(p.is_const for p in pointers if p.name in read_only):
        return Refusal("the parameters are marked already")
    notes: list[str] = []
    for one in pointers:
        if one.name in written:
            facts = no_alias(context, one.name, [p.name for p in pointers])
            if isinstance(facts, Refusal):
                return facts
            notes += [facts.note] if facts.note else []
    return _Found(body, pointers, read_only, tuple(notes))


def _never_kept(body: KernelBody, parameter: Parameter) -> bool:
    """Whether no local of a type without const takes the pointer (adding const would not compile then)."""
    for declaration in walk_types(body.body, "init_declarator"):
        value = declaration.child_by_field_name("value")
        outer = declaration.parent
        if value is None or outer is None:
            continue
        used = any(text_of(n) == parameter.name for n in walk_types(value, "identifier"))
        subscripted = any(
            n.type == "subscript_expression"
            for n in (
                around
                for i in walk_types(value, "identifier")
                if text_of(i) == parameter.name
                for around in ancestors(i, outer)
            )
        )
        if used and not subscripted and not text_of(outer).lstrip().startswith("const"):
            return False
    return True


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    return (Option({}, "const and __restrict__"),)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    edits = _edits(context, found)
    if not edits:
        return Refusal("the parameters are marked already")
    names = ", ".join(f"`{name}`" for name in sorted(found.read_only)) or "no buffer"
    rationale = (
        f"The buffers do not overlap ({names} only read): loads need not wait for stores, "
        "and may go through the read-only cache."
    )
    return finish(context, found.body, edits, rationale, not_checked=found.notes)


def _edits(context: RewriteContext, found: _Found) -> list[Edit]:
    unit = context.unit
    adds_const = not _is_declared_elsewhere(context)
    edits = []
    nodes = {name: node for node in _parameters(found.body.node) if (name := _name_of(node)) is not None}
    for parameter in found.pointers:
        node = nodes.get(parameter.name)
        identifier = None if node is None else declared_identifier(field(node, "declarator"))
        if node is None or identifier is None:
            continue
        if parameter.name in found.read_only and not parameter.is_const and adds_const:
            edits.append(edit(unit, node.start_byte, node.start_byte, "const "))
        if not parameter.is_restrict:
            edits.append(edit(unit, identifier.start_byte, identifier.start_byte, "__restrict__ "))
    return edits


def _parameters(function: Node) -> list[Node]:
    declarator = next(walk_types(function, "function_declarator"), None)
    if declarator is None:
        return []
    return [n for n in field(declarator, "parameters").named_children if n.type.endswith("parameter_declaration")]


def _name_of(parameter: Node) -> str | None:
    identifier = declared_identifier(field(parameter, "declarator"))
    return None if identifier is None else text_of(identifier)


def _is_declared_elsewhere(context: RewriteContext) -> bool:
    """Whether the file declares or instantiates the kernel beside its definition: const would then disagree."""
    kernel = context.kernel
    for declarator in walk_types(context.unit.tree.root_node, "function_declarator"):
        inside = kernel.range.start_byte <= declarator.start_byte < kernel.range.end_byte
        name = field(declarator, "declarator")
        if not inside and code_of(context.unit, name).split("<")[0].split("::")[-1].strip() == kernel.name:
            return True
    return False


REWRITE = Rewrite("restrict-readonly", ("redundant-global-traffic", "latency-bound-launch"), options, apply)
