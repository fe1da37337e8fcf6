"""Computes an element again where it is finished, instead of storing a first version and loading it back.

A softmax stores ``exp(x - max)``, sums it, and divides what it stored in another pass. Computed again from
its input, the element is stored once: a pass writes nothing, and the other reads the input instead of the output.
"""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.aliasing import no_alias
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, read_kernel
from optiml_core.rewrites.launch_text import is_primary
from optiml_core.rewrites.layout import code_of, edit, indent_at, line_start, substituted, unused_name
from optiml_core.rewrites.memory import Access, accesses_in, escaping_pointers
from optiml_core.rewrites.polynomials import Polynomial, coefficient, renamed
from optiml_core.rewrites.row_passes import Passes, is_pure, locals_of, needed_declarations, neighbouring_passes
from optiml_core.rewrites.syntax import (
    assigned_names,
    assignment_of,
    contains,
    declared_variables,
    names_in,
    statements_of,
    text_of,
    walk_types,
)
from optiml_core.rewrites.type_names import bare_type


@frozen
class _Found:
    """``store``: the first pass's statement ``y[i] = value``. ``reads``: accesses of ``y`` in it after the store.

    ``helpers``: declarations of the first pass that the value needs. ``final``: the second pass's first statement that
    stores to ``y``; ``old``: the reads of the stored value in front of it and in it.
    """

    body: KernelBody
    passes: Passes
    array: str
    type: str
    store: Node
    value: Node
    helpers: tuple[Node, ...]
    reads: tuple[Access, ...]
    final: Node
    old: tuple[Access, ...]
    inputs: tuple[Access, ...]


def _recognise(context: RewriteContext) -> _Found | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    reason = Refusal("no two loops run over the same elements")
    for passes in neighbouring_passes(body):
        found = _read_passes(body, passes)
        if isinstance(found, _Found):
            return found
        reason = found
    return reason


def _read_passes(body: KernelBody, passes: Passes) -> _Found | Refusal:
    first, second = passes.first, passes.second
    stores = [one for one in statements_of(first.body) if _stored(body, one, first.variable) is not None]
    if len(stores) != 1:
        return Refusal("the first pass does not store one element a round")
    store = stores[0]
    target = _stored(body, store, first.variable)
    made = assignment_of(store)
    assert target is not None
    assert made is not None
    assert made.right is not None
    array, value = target.array, made.right
    if target.node.type != "subscript_expression" or not is_pure(
        body, target.node.child_by_field_name("indices") or value
    ):
        return Refusal("the stored element is not a plain subscript")
    if not is_pure(body, value):
        return Refusal("the stored value cannot be computed twice")
    own = [one for one in accesses_in(body, first.body, frozenset({first.variable})) if one.array == array]
    reads = tuple(one for one in own if one.node.id != target.node.id)
    if any(one.index != target.index or one.kind != "load" or one.node.start_byte < store.end_byte for one in reads):
        return Refusal(f"the first pass touches `{array}` other than to store its element")
    if any(accesses.array == array for one in passes.between for accesses in accesses_in(body, one)):
        return Refusal(f"`{array}` is used between the passes")
    if any(array in escaping_pointers(body, one) for one in (first.body, second.body, *passes.between)):
        return Refusal(f"`{array}` is handed to another function")
    final = _final(body, passes, array, target.index)
    if isinstance(final, Refusal):
        return final
    helpers = needed_declarations(body, first.body, names_in(value) & locals_of(first), store.start_byte)
    if helpers is None:
        return Refusal("the stored value depends on what its round computes")
    refusal = _same_later(body, passes, (*helpers, value), array)
    if refusal is not None:
        return refusal
    type_ = next((bare_type(p.type) for p in body.kernel.parameters if p.name == array), "")
    inputs = [a for one in (*helpers, value) for a in accesses_in(body, one, frozenset({first.variable}))]
    return _Found(
        body, passes, array, type_, store, value, tuple(helpers), reads, final[0], final[1], tuple(inputs)
    )  # fmt: skip


def _stored(body: KernelBody, statement: Node, variable: str) -> Access | None:
    """The element of a parameter that a statement ``y[i] = value;`` sets, another one in every round."""
    made = assignment_of(statement)
    if statement.type != "expression_statement" or made is None or made.operator != "=" or made.right is None:
        return None
    found = [one for one in accesses_in(body, made.left, frozenset({variable})) if one.node.id == made.left.id]
    if len(found) != 1 or found[0].space != "parameter" or len(found[0].indices) != 1:
        return None
    factor = coefficient(found[0].index, variable)
    return found[0] if factor is not None and factor.terms else None


def _final(
    body: KernelBody, passes: Passes, array: str, index: Polynomial
) -> tuple[Node, tuple[Access, ...]] | Refusal:
    """The second pass's first store to the element, which every round makes, and the reads of the old value."""
    second = passes.second
    old: list[Access] = []
    for statement in statements_of(second.body):
        own = [one for one in accesses_in(body, statement, frozenset({second.variable})) if one.array == array]
        if any(renamed(one.index, second.variable, passes.first.variable) != index for one in own):
            return Refusal(f"the second pass touches other elements of `{array}`")
        writes = [one for one in own if one.writes]
        old += [one for one in own if one.kind == "load"]
        if any(one.kind == "address" for one in own):
            return Refusal(f"an address in `{array}` is taken")
        if not writes:
            continue
        made = assignment_of(statement)
        if made is None or len(writes) != 1 or made.left.id != writes[0].node.id or made.right is None:
            return Refusal(f"the second pass does not store to `{array}` in every round")
        if made.operator == "=" and not old:
            return Refusal(f"the second pass does not need what `{array}` held")
        return statement, tuple(old)
    return Refusal(f"the second pass does not store to `{array}`")


def _same_later(body: KernelBody, passes: Passes, parts: tuple[Node, ...], array: str) -> Refusal | None:
    """Whether the value is the same in the second pass: nothing that it reads is changed from the first pass on."""
    first, second = passes.first, passes.second
    places = (first.body, *passes.between, second.body)
    used = frozenset().union(*(names_in(one) for one in parts)) - {first.variable}
    own = locals_of(first)
    declared = {v.name for one in passes.between for d in walk_types(one, "declaration") for v in declared_variables(d)}
    changed = frozenset().union(*(assigned_names(one) for one in places)) | declared | locals_of(second)
    if (used - own) & changed:
        return Refusal(f"`{sorted((used - own) & changed)[0]}` changes before the second pass")
    if first.variable != second.variable and second.variable in used:
        return Refusal("the two passes' variables would be mixed up")
    read = {a.array for one in parts for a in accesses_in(body, one)}
    written = {a.array for one in places for a in accesses_in(body, one) if a.writes or a.kind == "address"} - {array}
    handed = frozenset().union(*(escaping_pointers(body, one) for one in places))
    if read & (written | handed):
        return Refusal(f"`{sorted(read & (written | handed))[0]}` changes before the second pass")
    if any(a.space == "shared" for one in parts for a in accesses_in(body, one)):
        return Refusal("the value is computed from shared memory")
    if array in read:
        return Refusal(f"the stored value depends on `{array}` itself")
    if any(barriers_in(one) for one in (first.body, second.body)):
        return Refusal("the passes have barriers in them")
    return None


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    made = apply(context, Option())
    return made if isinstance(made, Refusal) else (Option({}, f"elements of `{found.array}` are stored once"),)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    notes = _apart(context, found)
    if isinstance(notes, Refusal):
        return notes
    rationale = (
        f"What a pass stored to `{found.array}` and the next one loaded back is computed again from its inputs: "
        "the row is written once, and one pass reads less."
    )
    return finish(context, found.body, _edits(context, found), rationale, not_checked=notes)


def _apart(context: RewriteContext, found: _Found) -> tuple[str, ...] | Refusal:
    """Inputs at the same place may be the output itself; others must lie elsewhere."""
    target = next(a for a in accesses_in(found.body, found.store, frozenset({found.passes.first.variable})) if a.writes)
    elsewhere = {a.array for a in found.inputs if a.space == "parameter" and a.index != target.index}
    proof = no_alias(context, found.array, elsewhere)
    if isinstance(proof, Refusal):
        return proof
    notes = [proof.note] if proof.note else []
    same = {a.array for a in found.inputs if a.space == "parameter"} - elsewhere
    if same and isinstance(no_alias(context, found.array, same), Refusal):
        notes.append(f"buffers that overlap without being the same ({', '.join(sorted({found.array, *same}))})")
    return tuple(notes)


def _edits(context: RewriteContext, found: _Found) -> list[Edit]:
    unit, first, second = context.unit, found.passes.first, found.passes.second
    taken = names_in(found.body.body) | found.body.parameter_names | frozenset(found.body.macros)
    name = unused_name(f"{found.array}_value", taken)
    edits: list[Edit] = []
    value = code_of(unit, found.value)
    rest = [one for one in statements_of(first.body) if one.id != found.store.id and one not in found.helpers]
    if not rest:
        edits.append(_without(context, first.node))
    elif found.reads:
        edits.append(edit(unit, found.store.start_byte, found.store.end_byte, f"const {found.type} {name} = {value};"))
        edits += [edit(unit, one.node.start_byte, one.node.end_byte, name) for one in found.reads]
    else:
        edits.append(_without(context, found.store))
    again = [_for_second(context, found, helper) for helper in found.helpers]
    again.append(f"const {found.type} {name} = {_for_second(context, found, found.value)};")
    inner = statements_of(second.body)[0]
    indent = indent_at(unit, inner.start_byte)
    lead = "".join(f"{line}\n{indent}" for line in again)
    replaced = [(one.node, name) for one in found.old]
    made = assignment_of(found.final)
    assert made is not None
    assert made.right is not None
    whole = {}
    for statement in statements_of(second.body):
        mine = [pair for pair in replaced if contains(statement, pair[0])]
        if statement.id == found.final.id:
            whole[statement.id] = (statement, _finished(context, made.left, made.operator, made.right, name, mine))
        elif mine:
            whole[statement.id] = (statement, substituted(unit, statement, mine))
    in_block = second.body.type == "compound_statement"
    if not in_block:
        outer = indent_at(unit, second.node.start_byte)
        step = "    " if "\t" not in indent else "\t"
        lines = "".join(f"\n{outer}{step}{line}" for line in [*again, whole[inner.id][1]])
        edits.append(edit(unit, inner.start_byte, inner.end_byte, f"{{{lines}\n{outer}}}"))
        return edits
    if inner.id in whole:
        statement, text = whole.pop(inner.id)
        edits.append(edit(unit, statement.start_byte, statement.end_byte, lead + text))
    else:
        edits.append(edit(unit, inner.start_byte, inner.start_byte, lead))
    edits += [edit(unit, statement.start_byte, statement.end_byte, text) for statement, text in whole.values()]
    return edits


def _finished(
    context: RewriteContext, left: Node, operator: str, right: Node, name: str, replaced: list[tuple[Node, str]]
) -> str:
    """``y[i] /= s`` as ``y[i] = value / (s)``."""
    target = code_of(context.unit, left)
    inside = [pair for pair in replaced if contains(right, pair[0])]
    value = substituted(context.unit, right, inside)
    if operator == "=":
        return f"{target} = {value};"
    operand = value if is_primary(value) or right.type in ("cast_expression", "call_expression") else f"({value})"
    return f"{target} = {name} {operator.removesuffix('=')} {operand};"


def _for_second(context: RewriteContext, found: _Found, node: Node) -> str:
    """Code of the first pass with the second pass's variable."""
    old, new = found.passes.first.variable, found.passes.second.variable
    renamed = [(one, new) for one in walk_types(node, "identifier") if text_of(one) == old]
    return substituted(context.unit, node, renamed)


def _without(context: RewriteContext, node: Node) -> Edit:
    """A statement taken out, with its line where it has one of its own."""
    unit, data = context.unit, context.unit.source.data
    start, following = line_start(unit, node.start_byte), data.find(b"\n", node.end_byte)
    alone = following >= 0 and not data[start : node.start_byte].strip()
    if alone and not data[node.end_byte : following].strip():
        return edit(unit, start, following + 1, "")
    return edit(unit, node.start_byte, node.end_byte, ";" if node.parent is None else "")


REWRITE = Rewrite("recompute-element", ("repeated-pass", "redundant-global-traffic"), options, apply)
