"""Counts in shared memory first, and adds a block's counts to global memory once.

The private copy has a fixed number of bins. A bin beyond it is added to global memory directly, so
the code is right for any number of bins.
"""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites import coarsen_grid_stride
from optiml_core.rewrites.block_sizes import flat_rank
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import BARRIERS, KernelBody, read_kernel, returns_in
from optiml_core.rewrites.layout import (
    Layout,
    code_of,
    comments_before,
    edit,
    indent_at,
    layout_of,
    lines_of_code,
    reindented,
    unused_name,
)
from optiml_core.rewrites.memory import accesses_in, escaping_pointers, pointer_target, space_of
from optiml_core.rewrites.polynomials import Polynomial, coefficient
from optiml_core.rewrites.sequence import followed_by
from optiml_core.rewrites.syntax import (
    ancestors,
    arguments_of,
    called_name,
    contains,
    field,
    names_in,
    statements_of,
    text_of,
    unwrap,
    walk_types,
)
from optiml_core.rewrites.thread_coordinates import guarded_work
from optiml_core.rewrites.type_names import bare_type, resolved_type

CAPACITIES = (256, 1024, 4096)
_ADDED = frozenset({"int", "unsigned int", "float", "unsigned long long"})


@frozen
class _Atomic:
    """One ``atomicAdd(&bins[index], value);`` statement."""

    statement: Node
    index: str  # as written; empty for ``*bins``
    index_node: Node | None
    value: Node


@frozen
class _Found:
    """``name``: what the kernel calls the counters (a parameter, or a local pointer into one)."""

    body: KernelBody
    name: str
    type: str
    atomics: tuple[_Atomic, ...]


def _recognise(context: RewriteContext) -> _Found | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found: dict[str, list[_Atomic]] = {}
    for call in walk_types(body.body, "call_expression"):
        name = called_name(call) or ""
        if not name.startswith("atomic"):
            continue
        if any(space_of(body, array) == "shared" for array in escaping_pointers(body, call)):
            return Refusal("the kernel keeps counters in shared memory already")
        target = _target(body, call)
        if target is None:
            continue
        base, made = target
        if name != "atomicAdd":
            return Refusal(f"`{base}` is changed by {name} too")
        found.setdefault(base, []).append(made)
    if not found:
        return Refusal("the kernel adds to no global array atomically and lets the result go")
    base = max(found, key=lambda one: len(found[one]))
    refusal = _refusal(body, base, found[base])
    if refusal is not None:
        return refusal
    parameter = pointer_target(body, _identifier(body, base))
    type_ = next((p.type for p in body.kernel.parameters if parameter is not None and p.name == parameter[0]), "")
    if resolved_type(context.unit, type_) not in _ADDED:
        return Refusal(f"counters of type {bare_type(type_)} are not kept in shared memory")
    return _Found(body, base, bare_type(type_), tuple(found[base]))


def _identifier(body: KernelBody, name: str) -> Node:
    return next(node for node in walk_types(body.node, "identifier") if text_of(node) == name)


def _target(body: KernelBody, call: Node) -> tuple[str, _Atomic] | None:
    """The pointer that an atomic statement goes to, by name, and its parts; None for shared memory or a used result."""
    arguments = arguments_of(call)
    if len(arguments) != 2 or call.parent is None or call.parent.type != "expression_statement":
        return None
    place = unwrap(arguments[0])
    base: Node = place
    index: Node | None = None
    if place.type == "pointer_expression" and text_of(place).startswith("&"):
        inner = unwrap(field(place, "argument"))
        if inner.type != "subscript_expression":
            return None
        base = unwrap(field(inner, "argument"))
        index = next(iter(field(inner, "indices").named_children), None)
    elif place.type == "binary_expression" and text_of(field(place, "operator")) == "+":
        base, index = unwrap(field(place, "left")), field(place, "right")
    if base.type != "identifier":
        return None
    target = pointer_target(body, base)
    if target is None or space_of(body, target[0]) != "parameter":
        return None
    made = _Atomic(call.parent, "0" if index is None else text_of(index), index, arguments[1])
    return text_of(base), made


def _refusal(body: KernelBody, base: str, atomics: list[_Atomic]) -> Refusal | None:
    target = pointer_target(body, _identifier(body, base))
    if target is None or any("threadIdx" in name for name in target[1].names):
        return Refusal(f"threads of a block add to different parts of `{base}`")
    if any(name in body.assigned for name in target[1].names):
        return Refusal(f"where `{base}` points to may change")
    for one in atomics:
        index = Polynomial() if one.index_node is None else body.polynomial(one.index_node)
        if any((coefficient(index, axis) or Polynomial((((), 1),))).terms for axis in ("threadIdx.x",)):
            factor = coefficient(index, "threadIdx.x")
            if factor is not None:
                return Refusal("neighbouring threads add to different counters already")
    array = target[0]
    first = min(one.statement.start_byte for one in atomics)
    last_barrier = max(
        (c.end_byte for c in walk_types(body.body, "call_expression")
         if (called_name(c) or "") in BARRIERS and c.end_byte <= first and _at_top(body, c)),
        default=0,
    )  # fmt: skip
    aliases = {base, array}
    for identifier in walk_types(body.body, "identifier"):
        inside = any(contains(one.statement, identifier) for one in atomics)
        declares = any(
            around.type == "init_declarator" and text_of(field(around, "declarator")).lstrip("* ") == base
            for around in ancestors(identifier, body.body)
        )
        if text_of(identifier) in aliases and not inside and not declares and identifier.end_byte > last_barrier:
            return Refusal(f"`{base}` is used other than by adding to it")
    local = body.locals.get(base)
    if local is not None and (local.declaration.parent is None or local.declaration.parent.id != body.body.id):
        return Refusal(f"`{base}` is not known at the end of the kernel")
    return None


def _at_top(body: KernelBody, call: Node) -> bool:
    statement = call.parent
    return statement is not None and statement.parent is not None and statement.parent.id == body.body.id


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    made = apply(context, Option({"bins": CAPACITIES[0]}))
    if isinstance(made, Refusal):
        return made
    if all(one.index == "0" for one in found.atomics):
        sizes = [Option({"bins": 1}, "one counter in shared memory")]
    elif all(_is_byte(found.body, one.index_node) for one in found.atomics):
        sizes = [Option({"bins": 256}, "256 bins in shared memory")]
    else:
        sizes = [Option({"bins": bins}, f"{bins} bins in shared memory") for bins in CAPACITIES]
    blocks = coarsen_grid_stride.blocks_that_fill(context)
    if blocks is None:
        return tuple(sizes)
    few = [Option({**one.parameters, "blocks": blocks}, f"{one.note} of {blocks} blocks at most") for one in sizes]
    if isinstance(apply(context, few[0]), Refusal):
        return tuple(sizes)
    return tuple(option for pair in zip(few, sizes, strict=True) for option in pair)


def _is_byte(body: KernelBody, index: Node | None) -> bool:
    """Whether an index is just an element of a byte array, so that 256 bins are all there can be."""
    if index is None or unwrap(index).type != "subscript_expression":
        return False
    found = accesses_in(body, unwrap(index))
    types = [p.type for p in body.kernel.parameters if found and p.name == found[0].array]
    return bool(types) and resolved_type(body.unit, types[0]) == "unsigned char"


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    if "blocks" in option.parameters:
        # Each block empties and adds up its own counters: with few elements a block that would be most of its work.
        fewer = coarsen_grid_stride.apply(context, Option({"blocks": option.parameters["blocks"]}))
        if isinstance(fewer, Refusal):
            return fewer
        return followed_by(context, fewer, lambda later: apply(later, Option({"bins": option.parameters["bins"]})))
    bins = int(option.parameters["bins"])
    edits = _edits(context, found, bins)
    if isinstance(edits, Refusal):
        return edits
    counters = f"{bins} private counters" if bins > 1 else "a private counter"
    rationale = (
        f"A block adds to {counters} in shared memory and to `{found.name}` once at its end: "
        "atomics on one address no longer meet across the whole device."
    )
    guards = () if bins == 1 else (f"bins from {bins} on are added to global memory directly",)
    return finish(context, found.body, edits, rationale, guards=guards)


def _edits(context: RewriteContext, found: _Found, bins: int) -> list[Edit] | Refusal:
    unit, body = context.unit, found.body
    layout = layout_of(unit, body.body)
    statements = statements_of(body.body)
    taken = names_in(body.body) | body.parameter_names | frozenset(body.macros)
    private, bin_ = unused_name(f"local_{found.name}", taken), unused_name("bin", taken)
    returns = returns_in(body.body)
    work = guarded_work(body)
    leaving = not isinstance(work, Refusal) and work.leaves and len(returns) == 1
    if returns and not leaving:
        return Refusal("a thread may leave before the counts are added up")
    first, indent = statements[0], indent_at(unit, statements[0].start_byte)
    thread, threads = _flat(context)
    if bins == 1:
        start = [f"__shared__ {found.type} {private};", f"if ({_is_first(thread)}) {{", f"\t{private} = 0;", "}"]
        end = [f"if ({_is_first(thread)} && {private} != 0) {{", f"\tatomicAdd(&{found.name}[0], {private});", "}"]
    else:
        loop = f"for (int {bin_} = {thread}; {bin_} < {bins}; {bin_} += {threads}) {{"
        start = [f"__shared__ {found.type} {private}[{bins}];", loop, f"\t{private}[{bin_}] = 0;", "}"]
        end = [loop, f"\tif ({private}[{bin_}] != 0) {{",
               f"\t\tatomicAdd(&{found.name}[{bin_}], {private}[{bin_}]);", "\t}", "}"]  # fmt: skip
    start.append("__syncthreads();")
    end.insert(0, "__syncthreads();")
    begin = first.start_byte
    previous = first.prev_named_sibling
    for _ in comments_before(unit, first):
        if previous is not None:
            begin, previous = previous.start_byte, previous.prev_named_sibling
    lead = lines_of_code(start, layout, indent)[len(indent) :]
    tail = lines_of_code(end, layout, indent)
    edits = [edit(unit, begin, begin, f"{lead}\n{indent}")]
    replaced = [(one.statement, _added(context, found, one, private, bin_, bins, layout)) for one in found.atomics]
    if leaving and not isinstance(work, Refusal) and work.guard is not None:
        edits.append(
            _guarded(
                context,
                work.guard,
                work.work,
                " && ".join(f"{bound.name} < {bound.limit}" for bound in work.bounds),
                replaced,
                layout,
            )
        )
    else:
        edits += [edit(unit, node.start_byte, node.end_byte, text) for node, text in replaced]
    last = statements[-1].end_byte
    edits.append(edit(unit, last, last, f"\n{tail}"))
    return edits


def _flat(context: RewriteContext) -> tuple[str, str]:
    """A thread's number in its block, and the number of threads."""
    match flat_rank(context):
        case 1:
            return "threadIdx.x", "blockDim.x"
        case 2:
            return "threadIdx.y * blockDim.x + threadIdx.x", "blockDim.x * blockDim.y"
        case _:
            return (
                "(threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x",
                "blockDim.x * blockDim.y * blockDim.z",
            )


def _is_first(thread: str) -> str:
    return f"{thread} == 0"


def _added(
    context: RewriteContext, found: _Found, one: _Atomic, private: str, bin_: str, bins: int, layout: Layout
) -> str:
    value = code_of(context.unit, one.value)
    if one.index_node is None or bins == 1:
        return f"atomicAdd(&{private}, {value});"
    indent, step = indent_at(context.unit, one.statement.start_byte), layout.step
    index = code_of(context.unit, one.index_node)
    parent = one.statement.parent
    alone = parent is not None and parent.type == "compound_statement"
    alone = alone and sum(contains(parent, other.statement) for other in found.atomics if parent is not None) == 1
    if alone:
        return (
            f"const size_t {bin_} = {index};\n{indent}if ({bin_} < {bins}) {{\n{indent}{step}"
            f"atomicAdd(&{private}[{bin_}], {value});\n{indent}}} else {{\n{indent}{step}"
            f"atomicAdd(&{found.name}[{bin_}], {value});\n{indent}}}"
        )
    inside = f"\n{indent}{step}"
    return (
        f"{{{inside}const size_t {bin_} = {index};{inside}if ({bin_} < {bins}) {{{inside}{step}"
        f"atomicAdd(&{private}[{bin_}], {value});{inside}}} else {{{inside}{step}"
        f"atomicAdd(&{found.name}[{bin_}], {value});{inside}}}\n{indent}}}"
    )


def _guarded(
    context: RewriteContext, guard: Node, work: tuple[Node, ...], condition: str,
    replaced: list[tuple[Node, str]], layout: Layout,
) -> Edit:  # fmt: skip
    """``if (i >= n) return; work`` as ``if (i < n) { work }``: every thread must reach the barrier behind it."""
    unit = context.unit
    indent = indent_at(unit, guard.start_byte)
    data = unit.source.data
    begin, previous = work[0].start_byte, work[0].prev_named_sibling
    for _ in comments_before(unit, work[0]):
        if previous is not None:
            begin, previous = previous.start_byte, previous.prev_named_sibling
    pieces, at = [], begin
    for node, text in replaced:
        pieces += [data[at : node.start_byte].decode("utf-8", "surrogateescape"), text]
        at = node.end_byte
    pieces.append(data[at : work[-1].end_byte].decode("utf-8", "surrogateescape"))
    text = "".join(pieces).replace("\r\n", "\n")
    inner = reindented(text, indent, indent + layout.step)
    step = indent + layout.step
    return edit(unit, guard.start_byte, work[-1].end_byte, f"if ({condition}) {{\n{step}{inner}\n{indent}}}")


REWRITE = Rewrite("privatize-atomics", ("atomic-contention",), options, apply)
