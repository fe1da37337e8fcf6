"""Keeps a thread's share of a row in registers from the first pass over it to the last, so that it is loaded once.

The number of elements a thread keeps is fixed by the launch at hand; longer rows take the loops as they were.
"""

from __future__ import annotations

import math

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites import restrict_readonly
from optiml_core.rewrites.aliasing import no_alias
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, names_given_to_writers, read_kernel
from optiml_core.rewrites.launch_text import is_primary
from optiml_core.rewrites.layout import (
    code_of,
    edit,
    indent_at,
    layout_of,
    lines_of_code,
    reindented,
    split_lines,
    substituted,
    unused_name,
)
from optiml_core.rewrites.load_ahead import is_conditional, value_node
from optiml_core.rewrites.loops import CountedLoop
from optiml_core.rewrites.memory import Access, accesses_in, escaping_pointers
from optiml_core.rewrites.polynomials import coefficient, renamed
from optiml_core.rewrites.row_passes import equal_loops
from optiml_core.rewrites.sequence import followed_by
from optiml_core.rewrites.strided_vectors import shares_a_row
from optiml_core.rewrites.syntax import (
    assigned_names,
    contains,
    declared_variables,
    names_in,
    statements_of,
    walk_types,
)
from optiml_core.rewrites.type_names import bare_type, resolved_type
from optiml_core.source import element_type_of

MOST_WORDS = 48  # 4-byte registers that a thread keeps


@frozen
class _Kept:
    """An element that several passes load. ``nodes``: by pass, the expressions that give its value."""

    array: str
    type: str
    words: int
    first: Access
    nodes: dict[int, tuple[Node, ...]]


@frozen
class _Found:
    body: KernelBody
    loops: tuple[CountedLoop, ...]
    kept: tuple[_Kept, ...]
    rounds: int
    notes: tuple[str, ...]


def _recognise(context: RewriteContext) -> _Found | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    if context.launch is None:
        return Refusal("how long a row is, is not known")
    reason = Refusal("no two loops that threads share run over the same elements")
    for loops in equal_loops(body):
        if not shares_a_row(body, loops[0]):
            continue
        found = _read_loops(context, body, loops)
        if isinstance(found, _Found):
            return found
        reason = found
    return reason


def _read_loops(context: RewriteContext, body: KernelBody, loops: tuple[CountedLoop, ...]) -> _Found | Refusal:
    for loop in loops:
        leaving = ("break_statement", "return_statement", "continue_statement")
        if next(walk_types(loop.body, *leaving), None) is not None or barriers_in(loop.body):
            return Refusal("a round of a loop may end early, or waits for other threads")
        if not loop.declares or loop.type is None:
            return Refusal(f"`{loop.variable}` is not declared in its loop")
        if escaping_pointers(body, loop.body) or names_given_to_writers(body.unit, loop.body):
            return Refusal("a pointer is handed to another function")
        if any(a.space == "unknown" or a.kind == "address" for a in accesses_in(body, loop.body)):
            return Refusal("not every access is known to go to one array")
    kept = _kept(body, loops)
    if not kept:
        return Refusal("no element is loaded in more than one of the loops")
    rounds = _rounds(context, body, loops[0])
    if rounds is None:
        return Refusal("how long a row is, is not known")
    words = rounds * sum(one.words for one in kept)
    if words > MOST_WORDS:
        return Refusal(f"a thread's share of a row takes {words} registers")
    notes: list[str] = []
    for one in kept:
        stored = _stored_before(body, loops, one)
        for array in sorted(stored):
            proof = no_alias(context, array, {one.array})
            if isinstance(proof, Refusal):
                return proof
            notes += [proof.note] if proof.note else []
    return _Found(body, loops, tuple(kept), rounds, tuple(dict.fromkeys(notes)))


def _kept(body: KernelBody, loops: tuple[CountedLoop, ...]) -> list[_Kept]:
    """Elements that two loops or more load in every round, and that nobody stores to from the first loop on."""
    start = loops[0].node.start_byte
    touched = [
        a for a in accesses_in(body, body.body) if a.node.start_byte >= start and (a.writes or a.kind == "address")
    ]
    written = {access.array for access in touched} | escaping_pointers(body, body.body)
    places: dict[tuple[str, object], dict[int, list[Access]]] = {}
    for number, loop in enumerate(loops):
        inner = {v.name for one in walk_types(loop.body, "declaration") for v in declared_variables(one)}
        changing = inner | assigned_names(loop.body)
        for access in accesses_in(body, loop.body, frozenset({loop.variable})):
            plain = access.space == "parameter" and access.kind == "load" and len(access.indices) == 1
            factor = coefficient(access.index, loop.variable) if plain else None
            if factor is None or not factor.terms or access.array in written or names_in(access.node) & changing:
                continue
            index = renamed(access.index, loop.variable, loops[0].variable)
            places.setdefault((access.array, index), {}).setdefault(number, []).append(access)
    found = []
    for (array, _), by_loop in places.items():
        numbers = sorted(n for n, own in by_loop.items() if not is_conditional(own[0].node, loops[n].node))
        type_ = next(p.type for p in body.kernel.parameters if p.name == array)
        known = element_type_of(resolved_type(body.unit, bare_type(type_)))
        if len(numbers) < 2 or known is None or known.size > 8 or "volatile" in type_:
            continue
        nodes = {n: tuple(value_node(a.node) for a in own) for n, own in by_loop.items() if n >= numbers[0]}
        found.append(_Kept(array, bare_type(type_), max(1, known.size // 4), by_loop[numbers[0]][0], nodes))
    return found


def _stored_before(body: KernelBody, loops: tuple[CountedLoop, ...], kept: _Kept) -> frozenset[str]:
    """Parameters stored to between the element's first load and its last: they must be other memory."""
    start, end = loops[min(kept.nodes)].node.start_byte, loops[max(kept.nodes)].node.start_byte
    return frozenset(
        access.array
        for access in accesses_in(body, body.body)
        if access.writes and access.space == "parameter" and start <= access.node.start_byte < end
    )


def _rounds(context: RewriteContext, body: KernelBody, loop: CountedLoop) -> int | None:
    """Rounds of the loop in the launch at hand."""
    launch = context.launch
    assert launch is not None
    values = {name: value for name, value in launch.names.items() if isinstance(value, int)}
    values |= {f"blockDim.{axis}": size for axis, size in zip("xyz", launch.block, strict=True)}
    limit = body.polynomial(loop.limit).value(values)
    step = 1 if loop.step is None else body.polynomial(loop.step).value(values)
    if limit is None or step is None or step <= 0 or limit <= 0:
        return None
    return math.ceil(limit / step)


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    names = ", ".join(f"`{one.array}`" for one in found.kept)
    note = f"{found.rounds} elements of {names} a thread stay in registers"
    alone = Option({"rounds": found.rounds}, note)
    # Unrolled passes only pay where their loads may pass the stores of other rounds.
    both = Option({"rounds": found.rounds, "restrict": True}, f"{note}, other loads pass the stores")
    stores = any(a.writes and a.space == "parameter" for one in found.loops for a in accesses_in(found.body, one.body))
    return (alone,) if not stores or isinstance(apply(context, both), Refusal) else (both, alone)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    if option.parameters.get("restrict"):
        first = apply(context, Option({"rounds": option.parameters["rounds"]}))
        return first if isinstance(first, Refusal) else followed_by(context, first, _restricted)
    rounds = int(option.parameters.get("rounds", found.rounds))
    names = ", ".join(f"`{one.array}`" for one in found.kept)
    rationale = (
        f"A thread keeps its {rounds} elements of {names} in registers: the row is loaded once, not in every pass."
    )
    guards = (f"rows of more than {rounds} elements a thread take the loops as they were",)
    edits = _edits(context, found, rounds)
    return finish(context, found.body, edits, rationale, not_checked=found.notes, guards=guards)


def _restricted(context: RewriteContext) -> Rewritten | Refusal:
    found = restrict_readonly.REWRITE.options(context)
    return found if isinstance(found, Refusal) else restrict_readonly.REWRITE.apply(context, found[0])


def _edits(context: RewriteContext, found: _Found, rounds: int) -> list[Edit]:
    unit, body = context.unit, found.body
    taken = names_in(body.body) | body.parameter_names | frozenset(body.macros)
    fits = unused_name("fits", taken)
    lane = next((name for name in ("k", "r", "place") if name not in taken), unused_name("place", taken))
    names: list[str] = []
    for one in found.kept:
        names.append(unused_name(f"{one.array}_row", [*taken, *names]))
    layout = layout_of(unit, body.body)
    edits = []
    for number, loop in enumerate(found.loops):
        if not any(number in one.nodes for one in found.kept):
            continue
        lines: list[str] = []
        if number == min(min(one.nodes) for one in found.kept):
            sign = "<=" if not loop.inclusive else "<"
            step = _primary(code_of(unit, loop.step)) if loop.step is not None else "1"
            lines += [f"{one.type} {name}[{rounds}];" for one, name in zip(found.kept, names, strict=True)]
            lines.append(f"const bool {fits} = {_primary(code_of(unit, loop.limit))} {sign} {rounds} * {step};")
        lines += [f"if ({fits}) {{", *(f"\t{line}" for line in _kept_loop(context, found, number, names, lane, rounds))]
        indent = indent_at(unit, loop.node.start_byte)
        text = lines_of_code([*lines, "} else {"], layout, indent)
        old = reindented(code_of(unit, loop.node), indent, indent + layout.step)
        whole = f"{text[len(indent) :]}\n{indent}{layout.step}{old}\n{indent}}}"
        edits.append(edit(unit, loop.node.start_byte, loop.node.end_byte, whole))
    return edits


def _primary(text: str) -> str:
    return text if is_primary(text) else f"({text})"


def _kept_loop(
    context: RewriteContext, found: _Found, number: int, names: list[str], lane: str, rounds: int
) -> list[str]:
    """The pass over what is kept; what is first needed in this pass is loaded in front of it."""
    unit, loop = context.unit, found.loops[number]
    step = "1" if loop.step is None else _primary(code_of(unit, loop.step))
    start, limit = code_of(unit, loop.start), _primary(code_of(unit, loop.limit))
    kind = " ".join(word for word in (loop.type or "int").split() if word != "const")
    inside = f"{loop.variable} {'<=' if loop.inclusive else '<'} {limit}"
    head = [
        "#pragma unroll",
        f"for (int {lane} = 0; {lane} < {rounds}; {lane}++) {{",
        f"\tconst {kind} {loop.variable} = {start} + {lane} * {step};",
    ]
    lines: list[str] = []
    loaded = [
        f"\t{name}[{lane}] = {inside} ? {code_of(unit, one.nodes[number][0])} : {one.type}();"
        for one, name in zip(found.kept, names, strict=True)
        if min(one.nodes) == number
    ]
    if loaded:
        lines += [*head, *loaded, "}"]
    replaced = [
        (node, f"{name}[{lane}]")
        for one, name in zip(found.kept, names, strict=True)
        for node in one.nodes.get(number, ())
    ]
    step_text = layout_of(unit, found.body.body).step
    work: list[str] = []
    for statement in statements_of(loop.body):
        text = substituted(unit, statement, [pair for pair in replaced if contains(statement, pair[0])])
        work += split_lines(text, indent_at(unit, statement.start_byte), step_text)
    return [*lines, *head, f"\tif ({inside}) {{", *(f"\t\t{line}" for line in work), "\t}", "}"]


REWRITE = Rewrite("keep-row", ("repeated-pass", "redundant-global-traffic", "memory-latency"), options, apply)
