"""Code for several neighbouring elements at once: vector loads into registers, the work of each, vector stores."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.context import Refusal, RewriteContext
from optiml_core.rewrites.kernel_body import KernelBody
from optiml_core.rewrites.layout import code_of, indent_at, layout_of, split_lines, substituted, unused_name
from optiml_core.rewrites.memory import Access, accesses_in
from optiml_core.rewrites.polynomials import Polynomial, atom, coefficient, subtract
from optiml_core.rewrites.syntax import (
    ancestors,
    assigned_names,
    contains,
    declared_variables,
    names_in,
    text_of,
    walk_types,
)
from optiml_core.rewrites.type_names import bare_type, resolved_type
from optiml_core.source import element_type_of

# Builtin vector types by element type and lanes; only sizes of 4, 8 and 16 bytes, which one instruction moves.
_VECTORS = {
    ("float", 4): "float4", ("float", 2): "float2", ("double", 2): "double2", ("int", 4): "int4", ("int", 2): "int2",
    ("unsigned int", 4): "uint4", ("unsigned int", 2): "uint2", ("unsigned char", 4): "uchar4", ("char", 4): "char4",
    ("short", 4): "short4", ("unsigned short", 4): "ushort4", ("long long", 2): "longlong2",
}  # fmt: skip


@frozen
class VectorArray:
    """One array whose elements are neighbours for neighbouring values of the index.

    ``accesses``: all touch the same element. ``loads``, ``stores``: whether the work needs its old value,
    and whether it sets a new one.
    """

    array: str
    element: str  # as the parameter spells it
    vector: str
    bytes: int
    accesses: tuple[Access, ...]
    loads: bool
    stores: bool


def vector_arrays(
    body: KernelBody, work: tuple[Node, ...], index: str, fixed: frozenset[str]
) -> tuple[tuple[VectorArray, ...], int] | Refusal:
    """The arrays of ``work`` that can be moved by vectors along ``index``, and the lanes of a vector.

    ``fixed``: names that are the same for all elements of a vector.
    """
    accesses = [access for node in work for access in accesses_in(body, node, frozenset({index}))]
    if any(access.space == "unknown" or access.kind == "address" for access in accesses):
        return Refusal("not every access is known to go to one parameter")
    groups: dict[str, list[Access]] = {}
    for access in accesses:
        groups.setdefault(access.array, []).append(access)
    changing = frozenset().union(*(assigned_names(node) for node in work)) | {
        v.name for node in work for one in walk_types(node, "declaration") for v in declared_variables(one)
    }
    chosen: dict[str, list[Access]] = {}
    for array, own in groups.items():
        if own[0].space != "parameter":
            continue
        first = own[0].index
        neighbours = (
            all(len(one.indices) == 1 and one.index == first for one in own)
            and (coefficient(first, index) or Polynomial()).constant == 1
            and not (subtract(first, atom(index)).names & changing)
        )
        if neighbours:
            chosen[array] = own
        elif any(one.writes for one in own):
            return Refusal(f"`{array}` is stored to at places that are no neighbours")
    if not chosen:
        return Refusal("no array is touched at neighbouring places")
    elements = {array: _element(body, array) for array in chosen}
    sizes = [size for _, _, size in elements.values()]
    lanes = 4 if max(sizes) <= 4 else 2
    made = []
    for array, own in chosen.items():
        spelled, resolved, size = elements[array]
        vector = _VECTORS.get((resolved, lanes))
        if vector is None:
            return Refusal(f"there is no vector of {lanes} elements of type {spelled}")
        stores = [one for one in own if one.writes]
        if any(_is_conditional(one.node, work) for one in stores):
            return Refusal(f"`{array}` is not stored to for every element")
        loads = own[0].kind != "store" or _reads_first(own)
        made.append(VectorArray(array, spelled, vector, size * lanes, tuple(own), loads, bool(stores)))
    return tuple(made), lanes


def _element(body: KernelBody, array: str) -> tuple[str, str, int]:
    parameter = next(p for p in body.kernel.parameters if p.name == array)
    spelled = bare_type(parameter.type)
    resolved = resolved_type(body.unit, spelled)
    known = element_type_of(resolved)
    return spelled, resolved, 16 if known is None else known.size


_CONDITIONAL = frozenset({
    "if_statement", "for_statement", "while_statement", "do_statement", "switch_statement", "conditional_expression",
})  # fmt: skip


def _is_conditional(node: Node, work: tuple[Node, ...]) -> bool:
    """Whether a statement under a condition or in a loop holds the node."""
    top = next(one for one in work if contains(one, node))
    return any(around.type in _CONDITIONAL for around in (*ancestors(node, top), top))


def _reads_first(own: list[Access]) -> bool:
    """Whether the first statement reads the element too, behind its store in the text: ``y[i] = y[i] + 1``."""
    first = own[0]
    statement = next((one for one in ancestors(first.node) if one.type == "expression_statement"), None)
    return statement is not None and any(one.reads and contains(statement, one.node) for one in own[1:])


@frozen
class VectorNames:
    """Names of the new code: the first element's index, the lane, and each array's registers."""

    first: str
    lane: str
    values: tuple[str, ...]


def vector_names(body: KernelBody, arrays: tuple[VectorArray, ...], index: str) -> VectorNames:
    taken = names_in(body.body) | body.parameter_names | frozenset(body.macros)
    lane = next((name for name in ("k", "lane", "element") if name not in taken), unused_name("k", taken))
    return VectorNames(
        unused_name(f"first_{index}" if len(index) < 8 else "first", taken),
        lane,
        tuple(unused_name(f"{one.array}_values", taken) for one in arrays),
    )


def vector_body(
    context: RewriteContext,
    body: KernelBody,
    work: tuple[Node, ...],
    arrays: tuple[VectorArray, ...],
    lanes: int,
    index: str,
    index_type: str,
    names: VectorNames,
) -> list[str]:
    """The lines for one vector of elements: loads, an unrolled loop over the lanes, stores."""
    unit = context.unit
    lines = []
    for one, values in zip(arrays, names.values, strict=True):
        lines.append(f"__align__({one.bytes}) {one.element} {values}[{lanes}];")
    for one, values in zip(arrays, names.values, strict=True):
        if one.loads:
            place = _place(context, one, index, names.first)
            lines.append(
                f"*reinterpret_cast<{one.vector}*>({values}) = *reinterpret_cast<const {one.vector}*>({place});"
            )
    replaced = [
        (access.node, f"{values}[{names.lane}]")
        for one, values in zip(arrays, names.values, strict=True)
        for access in one.accesses
    ]
    texts = [substituted(unit, node, [r for r in replaced if contains(node, r[0])]) for node in work]
    step = layout_of(unit, body.body).step
    inner = [
        f"\t{line}"
        for node, text in zip(work, texts, strict=True)
        for line in split_lines(text, indent_at(unit, node.start_byte), step)
    ]
    if _uses_index(work, [node for node, _ in replaced], index):
        inner.insert(0, f"\tconst {index_type} {index} = {names.first} + {names.lane};")
    lines += ["#pragma unroll", f"for (int {names.lane} = 0; {names.lane} < {lanes}; {names.lane}++) {{", *inner, "}"]
    for one, values in zip(arrays, names.values, strict=True):
        if one.stores:
            place = _place(context, one, index, names.first)
            lines.append(
                f"*reinterpret_cast<{one.vector}*>({place}) = *reinterpret_cast<const {one.vector}*>({values});"
            )
    return lines


def _uses_index(work: tuple[Node, ...], replaced: list[Node], index: str) -> bool:
    return any(
        text_of(node) == index and not any(contains(other, node) for other in replaced)
        for one in work
        for node in walk_types(one, "identifier")
    )


def _place(context: RewriteContext, one: VectorArray, index: str, first: str) -> str:
    """The address of an array's element, with ``first`` in place of the index."""
    node = one.accesses[0].node
    own = [(inner, first) for inner in walk_types(node, "identifier") if text_of(inner) == index]
    return f"&{substituted(context.unit, node, own)}"


def aligned_condition(
    context: RewriteContext,
    arrays: tuple[VectorArray, ...],
    index: str,
    start: str,
    written_out: Mapping[str, Node],
) -> str:
    """Whether the vectors that begin at ``start`` lie on multiples of their size.

    ``written_out``: pointer locals, by name, to be replaced by what they are initialised with.
    """
    places: dict[str, int] = {}
    for one in arrays:
        base = one.accesses[0].node.child_by_field_name("argument")
        known = None if base is None else written_out.get(text_of(base))
        place = _place(context, one, index, start) if known is None else code_of(context.unit, known)
        places[place] = max(places.get(place, 0), one.bytes)
    largest = max(places.values())
    joined = " | ".join(f"reinterpret_cast<size_t>({place})" for place in places)
    return f"({joined}) % {largest} == 0" if len(places) > 1 else f"{joined} % {largest} == 0"
