"""Gives each column to a column of threads: 8 to 32 neighbouring columns a block, their rows shared out.

Where one thread sums a whole column, neighbouring threads do read neighbouring elements, but there are
only as many threads as columns. Here a warp still reads whole sectors of neighbouring columns, and the rows
of threads share the rows; they combine their parts in shared memory. Narrow blocks are for few columns: there
are more of them.
"""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit, Failure
from optiml_core.rewrites.column_blocks import (
    ColumnBlock,
    column_block_edits,
    column_number,
    read_column_block,
)
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, builtins_in, read_kernel
from optiml_core.rewrites.launch_names import extent
from optiml_core.rewrites.launch_text import plan
from optiml_core.rewrites.layout import edit, indent_at, layout_of, line_start, unused_name
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.polynomials import coefficient
from optiml_core.rewrites.row_edits import Team, team_edits
from optiml_core.rewrites.row_scope import ParallelLoop, RowCode, read_row
from optiml_core.rewrites.syntax import declared_variables, field, names_in, statements_of, text_of
from optiml_core.rewrites.thread_coordinates import Coordinate, GuardedWork, coordinates, guarded_work, invariant
from optiml_core.source import apply_edits

# Columns and rows of a block's threads; the rows are powers of two, as the reduction over them needs.
SHAPES = ((32, 32), (16, 64), (8, 128), (32, 16), (32, 8))
USUAL_MULTIPROCESSORS = 132


@frozen
class _Found:
    body: KernelBody
    column: Coordinate
    work: GuardedWork
    code: RowCode


def _recognise(context: RewriteContext) -> _Found | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    if barriers_in(body.body) or any("__shared__" in text_of(v.declaration) for v in body.locals.values()):
        return Refusal("the threads of a block already work together")
    found = coordinates(body)
    if len(found) != 1 or next(iter(found.values())).axis != "x":
        return Refusal("a thread does not stand for one column")
    column = next(iter(found.values()))
    work = guarded_work(body)
    if isinstance(work, Refusal):
        return work
    if work.conditions or len(work.bounds) != 1 or work.bounds[0].name != column.name or work.guard is None:
        return Refusal(f"the guard is not one upper bound of `{column.name}`")
    bound = work.bounds[0]
    if bound.node is not None and not invariant(body, names_in(bound.node) - {column.name}):
        return Refusal("the bound is not the same for all threads")
    batch = {"blockIdx.y", "blockIdx.z", "gridDim.y", "gridDim.z"}
    before = tuple(one for one in work.before if one.id != column.declaration.id)
    if len(declared_variables(column.declaration)) != 1:
        return Refusal(f"`{column.name}` is declared together with other variables")
    if any(builtins_in(body, node) - batch for node in (*before, *work.work)):
        return Refusal(f"the kernel uses thread indexes beside `{column.name}`")
    if any(accesses_in(body, node) for node in before):
        return Refusal("memory is read in front of the guard")
    code = read_row(body, (*before, *work.work), column.name, True)
    if isinstance(code, Refusal):
        return code
    for one in code.loops:
        if not one.reductions or any(access.writes for access in accesses_in(body, one.loop.body)):
            return Refusal("a loop stores for every row, which threads beyond the last column must not do")
        if not _runs_across_columns(body, column, one):
            return Refusal("neighbouring threads do not read neighbouring elements")
    return _Found(body, column, work, code)


def _runs_across_columns(body: KernelBody, column: Coordinate, one: ParallelLoop) -> bool:
    """Whether some access of the loop is contiguous across the columns, and none along them."""
    across = False
    for access in accesses_in(body, one.loop.body, frozenset({column.name, one.loop.variable})):
        along = coefficient(access.indices[-1], one.loop.variable)
        own = coefficient(access.index, column.name)
        if own is not None and own.constant == 1 and along is not None and along.constant not in (1, -1):
            across = True
    return across


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = []
    refusal: Refusal | None = None
    for columns, rows in sorted(SHAPES, key=lambda shape: _rank(context, shape)):
        option = Option({"rows": rows, "columns": columns}, f"blocks of {columns} columns and {rows} rows of threads")
        made = apply(context, option)
        if isinstance(made, Refusal):
            refusal = made
            break
        found.append(option)
    return tuple(found) if found else refusal or Refusal("no column can be shared out")


def _rank(context: RewriteContext, shape: tuple[int, int]) -> tuple[bool, int]:
    """Shapes whose blocks fill the GPU first; among them the widest."""
    if context.launch is None:
        return False, SHAPES.index(shape)
    grid, block = context.launch.grid[0], context.launch.block[0]
    columns = grid if isinstance(read_column_block(context), ColumnBlock) else grid * block
    processors = context.gpu.multiprocessors if context.gpu is not None else USUAL_MULTIPROCESSORS
    return columns < processors * shape[0], SHAPES.index(shape)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    rows, width = int(option.parameters["rows"]), int(option.parameters.get("columns", 32))
    block = read_column_block(context)
    rationale = (
        f"A block sums {width} neighbouring columns with {rows} threads each: a warp reads whole sectors, "
        "and there are enough threads to hide the latency."
    )
    if isinstance(block, ColumnBlock):
        grid = (f"ceil_div({block.columns}, {width})", "grid.y", "grid.z")
        launch = plan(grid, (str(width), str(rows), "1"), "0")
        edits = column_block_edits(context, block, width)
        return finish(context, block.body, edits, rationale, launch=launch)
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found if "already work together" not in found.reason else block
    made = _edits(context, found, width)
    if isinstance(made, Refusal):
        return made
    columns = extent(found.body, found.work.bounds[0].limit, "x")
    used = builtins_in(found.body, found.body.body)
    y, z = (f"grid.{axis}" if f"blockIdx.{axis}" in used else "1" for axis in "yz")
    launch = plan((f"ceil_div({columns}, {width})", y, z), (str(width), str(rows), "1"))
    arrays = sorted({a.array for one in found.code.loops for a in accesses_in(found.body, one.loop.body)})
    notes = (f"buffers that overlap without being the same ({', '.join(arrays)})",) if len(arrays) > 1 else ()
    return finish(context, found.body, made, rationale, launch=launch, not_checked=notes)


def _edits(context: RewriteContext, found: _Found, width: int) -> list[Edit] | Refusal:
    body, column = found.body, found.column
    guard = found.work.guard
    assert guard is not None
    limit = found.work.bounds[0].limit
    own = unused_name("column", names_in(body.body) | body.parameter_names | frozenset(body.macros))
    team = Team("column", "threadIdx.y", "blockDim.y", "__syncthreads();", f"threadIdx.y == 0 && {own} < {limit}")
    edits = team_edits(context, body, found.code, team)
    if isinstance(edits, Refusal):
        return edits
    edits += column_number(context, body, column.name, own, limit, width)
    if found.work.leaves:
        return [*edits, _without_line(context, guard)]
    return _unwrapped(context, found, guard, edits)


def _without_line(context: RewriteContext, node: Node) -> Edit:
    data = context.unit.source.data
    start, following = line_start(context.unit, node.start_byte), data.find(b"\n", node.end_byte)
    alone = not data[start : node.start_byte].strip() and following >= 0
    if alone and not data[node.end_byte : following].strip():
        return edit(context.unit, start, following + 1, "")
    return edit(context.unit, node.start_byte, node.end_byte, "")


def _unwrapped(context: RewriteContext, found: _Found, guard: Node, edits: list[Edit]) -> list[Edit] | Refusal:
    """The guarded statements with their edits, one level further out and without the guard."""
    unit = context.unit
    block = field(guard, "consequence")
    inner = statements_of(block)
    if block.type != "compound_statement" or [n.id for n in inner] != [n.id for n in found.work.work]:
        return Refusal("the guard is not one block of statements")
    start, end = block.start_byte + 1, block.end_byte - 1
    inside = [one for one in edits if start <= one.start_byte and one.end_byte <= end]
    outside = [one for one in edits if one not in inside]
    moved = [Edit(one.file, one.start_byte - start, one.end_byte - start, one.replacement) for one in inside]
    changed = apply_edits(unit.source.data[start:end], moved)
    if isinstance(changed, Failure):
        return Refusal(changed.message)
    text = changed.decode("utf-8", "surrogateescape").replace("\r\n", "\n").strip("\n").rstrip()
    outer, step = indent_at(unit, guard.start_byte), layout_of(unit, found.body.body).step
    lines = [outer + line[len(outer + step) :] if line.startswith(outer + step) else line for line in text.split("\n")]
    return [*outside, edit(unit, guard.start_byte, guard.end_byte, "\n".join(lines).lstrip())]


REWRITE = Rewrite("parallel-column", ("uncoalesced-access", "latency-bound-launch", "low-occupancy"), options, apply)
