"""Vectors in loops that the threads of a warp, a block or a launch share: ``for (j = lane; j < n; j += 32)``."""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.context import Refusal, RewriteContext
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, read_kernel
from optiml_core.rewrites.launch_text import is_primary
from optiml_core.rewrites.layout import code_of, edit, indent_at, layout_of, lines_of_code, reindented, unused_name
from optiml_core.rewrites.loops import CountedLoop, counted_loop, innermost_loops
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.polynomials import Polynomial, atom, constant, multiply
from optiml_core.rewrites.syntax import (
    contains,
    declared_variables,
    names_in,
    squeeze,
    statements_of,
    text_of,
    walk_types,
)
from optiml_core.rewrites.thread_coordinates import global_index
from optiml_core.rewrites.vector_code import VectorArray, aligned_condition, vector_arrays, vector_body, vector_names
from optiml_core.source.tree_queries import identifiers_assigned, identifiers_declared


@frozen
class VectorLoop:
    loop: CountedLoop
    arrays: tuple[VectorArray, ...]
    lanes: int


@frozen
class StridedLoops:
    """The shared loops of a kernel that can move vectors; all of them, or their threads' shares would not match."""

    body: KernelBody
    loops: tuple[VectorLoop, ...]


def _is_shared(body: KernelBody, loop: CountedLoop) -> bool:
    """Whether the loop's start and step share its rounds out among all threads of a warp, a block or the launch."""
    if loop.step is None or loop.inclusive:
        return False
    start, step = body.polynomial(loop.start), body.polynomial(loop.step)
    warp_lanes = (atom("threadIdx.x%32"), atom("threadIdx.x&31"), atom("(threadIdx.x)%32"))
    if start == atom("threadIdx.x") and step == atom("blockDim.x"):
        return True
    if start in warp_lanes and step == constant(32):
        return True
    return start == global_index("x") and step == multiply(atom("blockDim.x"), atom("gridDim.x"))


def shares_a_row(body: KernelBody, loop: CountedLoop) -> bool:
    """Whether the loop's rounds are shared out among the threads of a warp or a block."""
    return _is_shared(body, loop) and body.polynomial(loop.start) != global_index("x")


def read_strided_loops(context: RewriteContext) -> StridedLoops | Refusal:
    """Every loop that threads share, with its vectors; a Refusal if one of them cannot have any."""
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    shared = [
        loop
        for node in innermost_loops(body.body)
        if (loop := counted_loop(node)) is not None and _is_shared(body, loop)
    ]
    if not shared:
        return Refusal("no loop shares its rounds out among the threads")
    made = []
    reason: Refusal | None = None
    for loop in shared:
        found = _vector_loop(body, loop)
        if isinstance(found, Refusal):
            reason = found
        else:
            made.append(found)
    if not made:
        return reason or Refusal("no loop can move vectors")
    refusal = _shares_match(body, tuple(made))
    if refusal is not None:
        return refusal
    if len({one.loop.limit_text for one in made}) != 1:
        return Refusal("the loops have different lengths")
    if any(_declared_later(body, one, made[0].loop) for one in made):
        return Refusal("an address is computed behind the first loop")
    return StridedLoops(body, tuple(made))


def _vector_loop(body: KernelBody, loop: CountedLoop) -> VectorLoop | Refusal:
    if loop.node.parent is None or loop.node.parent.type != "compound_statement":
        return Refusal("the loop stands without braces")
    if barriers_in(loop.body) or next(walk_types(loop.body, "break_statement", "return_statement"), None) is not None:
        return Refusal("the loop may end early or waits for other threads")
    if not loop.declares or any(text_of(n) == loop.variable for n in _outside(body, loop)):
        return Refusal(f"`{loop.variable}` is used outside its loop")
    found = vector_arrays(body, statements_of(loop.body), loop.variable, frozenset())
    if isinstance(found, Refusal):
        return found
    if any(not _starts_a_row(array, loop.variable) for array in found[0]):
        return Refusal("an index is not linear in the loop's variable")
    return VectorLoop(loop, *found)


def _starts_a_row(array: VectorArray, variable: str) -> bool:
    return all(isinstance(access.index, Polynomial) and variable in access.index.atoms for access in array.accesses)


def _outside(body: KernelBody, loop: CountedLoop) -> list[Node]:
    """Uses of the loop variable's name that belong to no loop which declares it."""
    homes = [
        other.node
        for node in walk_types(body.body, "for_statement")
        if (other := counted_loop(node)) is not None and other.variable == loop.variable and other.declares
    ]
    return [
        node
        for node in walk_types(body.body, "identifier")
        if text_of(node) == loop.variable and not any(contains(home, node) for home in homes)
    ]


def _shares_match(body: KernelBody, loops: tuple[VectorLoop, ...]) -> Refusal | None:
    """A vector gives a thread other elements than before: what is stored may be touched by such loops only."""
    inside = [one.loop.body for one in loops]
    accesses = accesses_in(body, body.body)
    within = [access for access in accesses if any(contains(node, access.node) for node in inside)]
    stored = {access.array for access in within if access.writes}
    touched = {access.array for access in within}
    for access in accesses:
        if access in within:
            continue
        if access.array in stored or (access.writes and access.array in touched):
            return Refusal(f"`{access.array}` is also touched where threads have other shares")
    # A block keeps its elements in its own loops, but a launch's loop gives its blocks other ones.
    gathered = next((name for one in loops if not shares_a_row(body, one.loop) for name in _gathered(one)), None)
    apart = next((one for one in accesses if one not in within and one.writes and one.space == "parameter"), None)
    if gathered is not None and apart is not None:
        return Refusal(f"what `{gathered}` gathers over the launch is stored in `{apart.array}` block by block")
    return None


def _gathered(one: VectorLoop) -> list[str]:
    """Names that the loop assigns and that live on behind it."""
    return sorted(identifiers_assigned(one.loop.body) - identifiers_declared(one.loop.body))


def _declared_later(body: KernelBody, one: VectorLoop, first: CountedLoop) -> bool:
    """Whether an address needs a local that is declared behind the first loop and cannot be written out there."""
    late = _late_pointers(body, one, first)
    used = {name for array in one.arrays for access in array.accesses for name in names_in(access.node)} - set(late)
    used |= {name for node in late.values() for name in names_in(node)}
    return any(
        variable.name in used
        and variable.name != one.loop.variable
        and variable.declaration.start_byte >= first.node.start_byte
        and not contains(one.loop.node, variable.declaration)
        for declaration in walk_types(body.body, "declaration")
        for variable in declared_variables(declaration)
    )


def _late_pointers(body: KernelBody, one: VectorLoop, first: CountedLoop) -> dict[str, Node]:
    """Pointer locals declared behind the first loop whose first element this loop's vectors begin at."""
    found = {}
    for array in one.arrays:
        access = array.accesses[0]
        base = access.node.child_by_field_name("argument")
        name = "" if base is None else text_of(base)
        variable = body.locals.get(name)
        if variable is None or name not in body.definitions or not variable.is_pointer:
            continue
        inner = access.node.child_by_field_name("indices")
        plain = inner is not None and squeeze(text_of(inner)) == f"[{one.loop.variable}]"
        if plain and variable.declaration.start_byte >= first.node.start_byte:
            found[name] = body.definitions[name]
    return found


def strided_edits(context: RewriteContext, found: StridedLoops) -> list[Edit]:
    """Each loop twice: by vectors where ``vectors`` says so, else as it was."""
    unit, body = context.unit, found.body
    layout = layout_of(unit, body.body)
    flag = unused_name("vectors", names_in(body.body) | body.parameter_names)
    first = found.loops[0]
    conditions = list(
        dict.fromkeys(
            aligned_condition(context, one.arrays, one.loop.variable, "0", _late_pointers(body, one, first.loop))
            for one in found.loops
        )
    )
    limit = first.loop.limit_text
    length = limit if is_primary(limit) else f"({limit})"
    lanes = max(one.lanes for one in found.loops)
    joined = " && ".join([f"{length} % {lanes} == 0", *conditions])
    edits = []
    for one in found.loops:
        node = one.loop.node
        indent = indent_at(unit, node.start_byte)
        lines = [] if one is not first else [f"const bool {flag} = {joined};"]
        lines += [f"if ({flag}) {{", *(f"\t{line}" for line in _vector_lines(context, body, one)), "} else {"]
        text = lines_of_code(lines, layout, indent)
        old = reindented(code_of(unit, node), indent, indent + layout.step)
        whole = f"{text[len(indent) :]}\n{indent}{layout.step}{old}\n{indent}}}"
        edits.append(edit(unit, node.start_byte, node.end_byte, whole))
    return edits


def _vector_lines(context: RewriteContext, body: KernelBody, one: VectorLoop) -> list[str]:
    loop, lanes = one.loop, one.lanes
    names = vector_names(body, one.arrays, loop.variable)
    kind = " ".join(word for word in (loop.type or "int").split() if word != "const")
    start = code_of(context.unit, loop.start)
    step = "" if loop.step is None else code_of(context.unit, loop.step)
    begin = f"{lanes} * {start if is_primary(start) else f'({start})'}"
    stride = str(lanes * int(step)) if step.isdigit() else f"{lanes} * {step}"
    inside = vector_body(context, body, statements_of(loop.body), one.arrays, lanes, loop.variable, kind, names)
    return [
        f"for ({kind} {names.first} = {begin}; {names.first} < {loop.limit_text}; {names.first} += {stride}) {{",
        *(f"\t{line}" for line in inside),
        "}",
    ]
