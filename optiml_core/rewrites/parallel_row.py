"""Gives each row to a warp or a block instead of one thread, so that neighbouring threads read neighbouring elements.

Loops over the row are shared out among the threads; sums, maxima and minima are combined by warp
shuffles (and shared memory between the warps of a block); scalars are computed by every thread of the
row alike; stores outside the loops are made by its first thread.
"""

from __future__ import annotations

from attrs import frozen

from optiml_core.records import Edit
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, builtins_in, read_kernel
from optiml_core.rewrites.launch_names import extent
from optiml_core.rewrites.launch_text import LaunchPlan, plan
from optiml_core.rewrites.layout import (
    edit,
    indent_at,
    unused_name,
)
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.polynomials import coefficient
from optiml_core.rewrites.row_edits import Team, team_edits
from optiml_core.rewrites.row_scope import ParallelLoop, RowCode, read_row
from optiml_core.rewrites.syntax import declared_variables, names_in, text_of
from optiml_core.rewrites.thread_coordinates import Coordinate, GuardedWork, coordinates, guarded_work

WARP = 32
BLOCKS = (256, 128, 512, 1024)


@frozen
class _Found:
    body: KernelBody
    row: Coordinate
    work: GuardedWork
    code: RowCode


def _recognise(context: RewriteContext, scope: str) -> _Found | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    if barriers_in(body.body) or any("__shared__" in text_of(v.declaration) for v in body.locals.values()):
        return Refusal("the threads of a block already work together")
    found = coordinates(body)
    if len(found) != 1 or next(iter(found.values())).axis != "x":
        return Refusal("a thread does not stand for one row")
    row = next(iter(found.values()))
    work = guarded_work(body)
    if isinstance(work, Refusal):
        return work
    if not work.bounds and scope == "warp":
        return Refusal("no guard keeps out the warps beyond the last row")
    if work.conditions or any(bound.name != row.name for bound in work.bounds) or len(work.bounds) > 1:
        return Refusal(f"the guard is not one upper bound of `{row.name}`")
    refusal = _only_the_row(body, row, work)
    if refusal is not None:
        return refusal
    before = tuple(one for one in work.before if row.name not in {v.name for v in declared_variables(one)})
    code = read_row(body, (*before, *work.work), row.name, scope == "block")
    if isinstance(code, Refusal):
        return code
    if not any(_runs_along_rows(body, row, one) for one in code.loops):
        return Refusal("neighbouring threads already read neighbouring elements")
    return _Found(body, row, work, code)


def _only_the_row(body: KernelBody, row: Coordinate, work: GuardedWork) -> Refusal | None:
    """Thread and block indexes may serve the row's number only (blockIdx.y and z: a batch)."""
    batch = {"blockIdx.y", "blockIdx.z", "gridDim.y", "gridDim.z"}
    for node in (*work.before, *work.work):
        own = [v for v in declared_variables(node) if v.name == row.name]
        if own and len(declared_variables(node)) > 1:
            return Refusal(f"`{row.name}` is declared together with other variables")
        if not own and builtins_in(body, node) - batch:
            return Refusal(f"the kernel uses thread indexes beside `{row.name}`")
    return None


def _runs_along_rows(body: KernelBody, row: Coordinate, one: ParallelLoop) -> bool:
    """Whether the loop reads or writes consecutive elements that neighbouring threads do not."""
    keep = frozenset({row.name, one.loop.variable})
    for access in accesses_in(body, one.loop.body, keep):
        along, across = coefficient(access.indices[-1], one.loop.variable), coefficient(access.index, row.name)
        if access.space != "parameter" or along is None or along.constant not in (1, -1):
            continue
        across_is_free = across is not None and (across.constant == 1 or across.constant == -1)
        if across is not None and not across.terms and row.name not in names_in(one.loop.start):
            continue  # the same elements for every row
        if not across_is_free:
            return True
    return False


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found: list[Option] = []
    refusal: Refusal | None = None
    for scope in ("block", "warp") if _rows_outgrow_l2(context) else ("warp", "block"):
        for threads in BLOCKS if scope == "block" else BLOCKS[:2]:
            option = Option({"scope": scope, "threads": threads}, f"one {scope} per row, blocks of {threads} threads")
            made = apply(context, option)
            if isinstance(made, Refusal):
                refusal = made
                break
            found.append(option)
    return tuple(found) if found else refusal or Refusal("no loop over a row can be shared out")


def _rows_outgrow_l2(context: RewriteContext) -> bool:
    """Whether the rows of all warps that a GPU holds, gone over more than once, are more than its L2 keeps.

    A block a row has fewer rows under way, and finds in L2 what an earlier pass over its row has read.
    """
    if context.launch is None or context.gpu is None:
        return False
    found = _recognise(context, "block")
    if isinstance(found, Refusal) or len(found.code.loops) < 2:
        return False
    values = {name: value for name, value in context.launch.names.items() if isinstance(value, int)}
    longest = 0
    for one in found.code.loops:
        limit = found.body.polynomial(one.loop.limit).value(values)
        sizes = [p.element.size for a in accesses_in(found.body, one.loop.body) for p in found.body.kernel.parameters
                 if p.name == a.array and p.element is not None]  # fmt: skip
        longest = max(longest, (limit or 0) * max(sizes, default=0))
    rows = context.launch.grid[0] * context.launch.block[0]
    warps = context.gpu.multiprocessors * context.gpu.warps_per_multiprocessor
    return min(rows, warps) * longest > context.gpu.l2_bytes


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    scope, threads = str(option.parameters["scope"]), int(option.parameters["threads"])
    found = _recognise(context, scope)
    if isinstance(found, Refusal):
        return found
    edits = _edits(context, found, scope)
    if isinstance(edits, Refusal):
        return edits
    sums = len({r.name for one in found.code.loops for r in one.reductions})
    rationale = (
        f"One {scope} instead of one thread per row: its threads read consecutive elements, "
        + (f"{sums} value{'s are' if sums > 1 else ' is'} combined by warp shuffles" if sums else "each its share")
        + "."
    )
    arrays = sorted({a.array for one in found.code.loops for a in accesses_in(found.body, one.loop.body)})
    notes = (f"buffers that overlap without being the same ({', '.join(arrays)})",) if len(arrays) > 1 else ()
    return finish(context, found.body, edits, rationale, launch=_launch(found, scope, threads), not_checked=notes)


def _launch(found: _Found, scope: str, threads: int) -> LaunchPlan | Refusal:
    rows = extent(found.body, found.work.bounds[0].limit if found.work.bounds else None, "x")
    used = builtins_in(found.body, found.body.body)
    per_block = threads // WARP if scope == "warp" else 1
    y, z = (f"grid.{axis}" if f"blockIdx.{axis}" in used else "1" for axis in "yz")
    return plan((f"ceil_div({rows}, {per_block})", y, z), (str(threads), "1", "1"))


def _edits(context: RewriteContext, found: _Found, scope: str) -> list[Edit] | Refusal:
    body = found.body
    lane, stride = "threadIdx.x", "blockDim.x"
    if scope == "warp":
        lane, stride = unused_name("lane", names_in(body.body) | body.parameter_names), "32"
    barrier = "__syncthreads();" if scope == "block" else "__syncwarp();"
    team = Team(scope, lane, stride, barrier, f"{lane} == 0")
    edits = team_edits(context, body, found.code, team)
    if isinstance(edits, Refusal):
        return edits
    return [*edits, *_row_number(context, found, scope, lane)]


def _row_number(context: RewriteContext, found: _Found, scope: str, lane: str) -> list[Edit]:
    unit, declaration = context.unit, found.row.declaration
    value = found.body.definitions[found.row.name]
    if scope == "block":
        return [edit(unit, value.start_byte, value.end_byte, "blockIdx.x")]
    indent = indent_at(unit, declaration.start_byte)
    rows_before = edit(unit, value.start_byte, value.end_byte, "blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32")
    end = declaration.end_byte
    return [rows_before, edit(unit, end, end, f"\n{indent}const int {lane} = threadIdx.x % 32;")]


REWRITE = Rewrite("parallel-row", ("uncoalesced-access", "latency-bound-launch", "low-occupancy"), options, apply)
