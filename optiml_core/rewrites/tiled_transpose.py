"""The transpose whose threads already walk over a tile: ``for (j = 0; j < TILE; j += ROWS)``.

Its blocks have TILE x ROWS threads. Here the launch stays; the tile that a block covers is put into
shared memory between its loads and its stores.
"""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.block_sizes import known_blocks
from optiml_core.rewrites.context import Refusal, RewriteContext
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, read_kernel
from optiml_core.rewrites.layout import (
    code_of,
    edit,
    indent_at,
    layout_of,
    lines_of_code,
    reindented,
    substituted,
    unused_name,
)
from optiml_core.rewrites.loops import CountedLoop, counted_loop
from optiml_core.rewrites.memory import Access, accesses_in
from optiml_core.rewrites.polynomials import Polynomial, add, atom, coefficient, multiply, spell, subtract
from optiml_core.rewrites.syntax import assignment_of, declared_variables, names_in, statements_of, text_of
from optiml_core.rewrites.type_names import bare_type


@frozen
class TiledTranspose:
    """``x``, ``y``: the locals that are a tile's corner plus threadIdx.x and threadIdx.y. ``step`` extends ``y``."""

    body: KernelBody
    x: str
    y: str
    loop: CountedLoop
    tile: str
    rows: str
    store: Access
    load: Access
    staged_is_load: bool  # the load is the strided access, else the store is


def read_tiled_transpose(context: RewriteContext) -> TiledTranspose | Refusal:
    """The tile loop of a kernel with one coalesced and one strided access."""
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    statements = statements_of(body.body)
    if barriers_in(body.body) or not statements or any(one.type != "declaration" for one in statements[:-1]):
        return Refusal("the kernel is more than declarations and one loop over a tile")
    loop = counted_loop(statements[-1])
    if loop is None or loop.step is None or loop.inclusive or body.polynomial(loop.start).constant != 0:
        return Refusal("the kernel does not end in a loop over the rows of a tile")
    tile, rows = body.polynomial(loop.limit).constant, body.polynomial(loop.step).constant
    if not tile or not rows or tile % 32 or tile % rows or tile // rows < 2:
        return Refusal("the loop does not run over a tile of a fixed size")
    work = statements_of(loop.body)
    made = assignment_of(work[0]) if len(work) == 1 else None
    if made is None or made.operator != "=" or made.right is None:
        return Refusal("the loop does more than one store")
    corners = {axis: _corner(body, axis, tile) for axis in "xy"}
    x, y = corners["x"], corners["y"]
    if x is None or y is None:
        return Refusal("no variables are the tile's corner plus the thread's place in it")
    keep = frozenset({x, y, loop.variable}) | _same_in_all_threads(body)
    accesses = accesses_in(body, work[0], keep)
    stores, loads = [a for a in accesses if a.writes], [a for a in accesses if not a.writes]
    if len(stores) != 1 or len(loads) != 1 or any(a.space != "parameter" for a in accesses):
        return Refusal("the loop does not copy from one array to another")
    if stores[0].array == loads[0].array:
        return Refusal("the loop reads the array that it writes")
    along = {access.node.id: _along(access.index, x, y, loop.variable) for access in accesses}
    store_along, load_along = along[stores[0].node.id], along[loads[0].node.id]
    if {store_along, load_along} != {"x", "y"}:
        return Refusal("the accesses are not one along the rows and one along the columns of the tile")
    return TiledTranspose(
        body, x, y, loop, code_of(context.unit, loop.limit), code_of(context.unit, loop.step), stores[0], loads[0],
        load_along == "y",
    )  # fmt: skip


def _same_in_all_threads(body: KernelBody) -> frozenset[str]:
    """Locals such as ``width`` that new code may use by name."""
    return frozenset(
        name
        for name, node in body.definitions.items()
        if not body.locals[name].is_pointer
        and not any(part.startswith(("threadIdx", "blockIdx")) for part in body.polynomial(node).names)
    )


def _corner(body: KernelBody, axis: str, tile: int) -> str | None:
    """The local that is ``blockIdx.a * TILE + threadIdx.a``."""
    wanted = add(multiply(atom(f"blockIdx.{axis}"), Polynomial((((), tile),))), atom(f"threadIdx.{axis}"))
    for name, node in body.definitions.items():
        if not body.locals[name].is_pointer and body.polynomial(node) == wanted:
            return name
    return None


def _along(index: Polynomial, x: str, y: str, step: str) -> str | None:
    """The coordinate along which an access is contiguous; the loop must extend ``y``."""
    along_x, along_y, along_step = (coefficient(index, name) for name in (x, y, step))
    if along_x is None or along_y is None or along_step != along_y:
        return None
    if along_x.constant == 1 and along_y.constant != 1:
        return "x"
    return "y" if along_y.constant == 1 and along_x.constant != 1 else None


def tiled_edits(context: RewriteContext, found: TiledTranspose) -> tuple[list[Edit], tuple[str, ...]]:
    """The edits, and the guards that they carry: blocks of another shape take the old path."""
    unit, body, loop = context.unit, found.body, found.loop
    taken = names_in(body.body) | body.parameter_names | frozenset(body.macros)
    tile = unused_name("tile", taken)
    parameter = next(p for p in body.kernel.parameters if p.name == found.load.array)
    swapped = {name: unused_name(f"turned_{name}", taken) for name in (found.x, found.y)}
    step = loop.variable
    header = code_of(unit, loop.node)[: loop.body.start_byte - loop.node.start_byte].rstrip()
    plain, turned = f"{tile}[threadIdx.y + {step}][threadIdx.x]", f"{tile}[threadIdx.x][threadIdx.y + {step}]"
    statement = statements_of(loop.body)[0]
    made = assignment_of(statement)
    assert made is not None
    if found.staged_is_load:
        fill = f"{turned} = {_turned(context, found, found.load, swapped)};"
        drain = substituted(unit, statement, [(found.load.node, plain)])
    else:
        fill = f"{plain} = {code_of(unit, found.load.node)};"
        target = _turned(context, found, found.store, swapped)
        drain = substituted(unit, statement, [(made.left, target), (found.load.node, turned)])
    kinds = {name: _plain(body.locals[name].type) for name in swapped}
    corners = [
        f"const {kinds[found.x]} {swapped[found.x]} = blockIdx.x * {found.tile} + threadIdx.y;",
        f"const {kinds[found.y]} {swapped[found.y]} = blockIdx.y * {found.tile} + threadIdx.x;",
    ]
    lines = [
        *corners, f"{header} {{", f"\t{fill}", "}", "__syncthreads();", f"{header} {{", f"\t{drain}", "}",
    ]  # fmt: skip
    shared = f"__shared__ {bare_type(parameter.type)} {tile}[{found.tile}][{found.tile} + 1];"
    layout, indent = layout_of(unit, body.body), indent_at(unit, loop.node.start_byte)
    shapes = known_blocks(context)
    size, rows = body.polynomial(loop.limit).constant, body.polynomial(_step(loop)).constant
    proved = bool(shapes) and shapes is not None and all(shape == (size, rows, 1) for shape in shapes)
    guards: tuple[str, ...] = ()
    if proved:
        text = lines_of_code([shared, *lines], layout, indent)[len(indent) :]
    else:
        guards = (f"the tile is used only by blocks of {found.tile} x {found.rows} threads",)
        condition = f"blockDim.x == {found.tile} && blockDim.y == {found.rows}"
        old = reindented(code_of(unit, loop.node), indent, indent + layout.step)
        body_lines = [shared, f"if ({condition}) {{", *(f"\t{line}" for line in lines), "} else {"]
        text = lines_of_code(body_lines, layout, indent)[len(indent) :] + f"\n{indent}{layout.step}{old}\n{indent}}}"
    edits = [edit(unit, loop.node.start_byte, loop.node.end_byte, text)]
    return edits + (_unused(context, found) if proved else []), guards


def _step(loop: CountedLoop) -> Node:
    assert loop.step is not None
    return loop.step


def _plain(kind: str) -> str:
    return " ".join(word for word in kind.split() if word != "const")


def _turned(context: RewriteContext, found: TiledTranspose, access: Access, swapped: dict[str, str]) -> str:
    """The strided access with the thread's places exchanged: the loop then extends ``x``."""
    step = found.loop.variable
    along_x = coefficient(access.index, found.x) or Polynomial()
    along_y = coefficient(access.index, found.y) or Polynomial()
    rest = subtract(
        access.index,
        add(
            multiply(along_x, atom(found.x)), multiply(along_y, atom(found.y)), multiply(along_y, atom(step)),
        ),
    )  # fmt: skip
    scale = spell(along_x)
    scale = scale if "+" not in scale and "-" not in scale else f"({scale})"
    across = f"({swapped[found.x]} + {step})" if scale != "1" else f"{swapped[found.x]} + {step}"
    pieces = [across if scale == "1" else f"{scale} * {across}", swapped[found.y]]
    if rest.terms:
        pieces.append(spell(rest))
    array = code_of(context.unit, access.node).split("[")[0]
    base = access.array if array.strip() != access.array else array
    return f"{base}[{' + '.join(pieces)}]"


def _unused(context: RewriteContext, found: TiledTranspose) -> list[Edit]:
    """Removes declarations that served only the strided access."""
    gone = found.load.node if found.staged_is_load else found.store.node
    edits = []
    for statement in statements_of(found.body.body)[:-1]:
        variables = declared_variables(statement)
        if len(variables) != 1 or variables[0].name in (found.x, found.y):
            continue
        name = variables[0].name
        uses = [n for n in _identifiers(found.body.body) if text_of(n) == name and n.start_byte > statement.end_byte]
        if uses and all(gone.start_byte <= n.start_byte < gone.end_byte for n in uses):
            data = context.unit.source.data
            start, following = data.rfind(b"\n", 0, statement.start_byte) + 1, data.find(b"\n", statement.end_byte)
            if not data[start : statement.start_byte].strip() and not data[statement.end_byte : following].strip():
                edits.append(edit(context.unit, start, following + 1, ""))
    return edits


def _identifiers(node: Node) -> list[Node]:
    found, stack = [], [node]
    while stack:
        current = stack.pop()
        if current.type == "identifier":
            found.append(current)
        stack.extend(current.children)
    return found
