"""Gives each row to a warp or a block instead of one thread, so that neighbouring threads read neighbouring elements.

Loops over the row are shared out among the threads; sums, maxima and minima are combined by warp
shuffles (and shared memory between the warps of a block); scalars are computed by every thread of the
row alike; stores outside the loops are made by its first thread.
"""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, builtins_in, read_kernel
from optiml_core.rewrites.launch_names import extent
from optiml_core.rewrites.launch_text import LaunchPlan, is_primary, plan
from optiml_core.rewrites.layout import (
    code_of,
    edit,
    indent_at,
    layout_of,
    reindented,
    unused_name,
)
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.placing import insert_functions
from optiml_core.rewrites.polynomials import coefficient
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
    for scope in ("warp", "block"):
        for threads in BLOCKS if scope == "block" else BLOCKS[:2]:
            option = Option({"scope": scope, "threads": threads}, f"one {scope} per row, blocks of {threads} threads")
            made = apply(context, option)
            if isinstance(made, Refusal):
                refusal = made
                break
            found.append(option)
    return tuple(found) if found else refusal or Refusal("no loop over a row can be shared out")


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
    unit, body = context.unit, found.body
    layout = layout_of(unit, body.body)
    wanted = [(r.kind, r.type) for one in found.code.loops for r in one.reductions]
    functions = insert_functions(context, body, wanted, scope)
    edits: list[Edit] = list(functions.edits)
    lane, stride = "threadIdx.x", "blockDim.x"
    if scope == "warp":
        lane, stride = unused_name("lane", names_in(body.body) | body.parameter_names), "32"
    edits += _row_number(context, found, scope, lane)
    befores: dict[int, list[str]] = {}
    for one in found.code.barriers_before:
        befores.setdefault(one.id, []).append("__syncthreads();" if scope == "block" else "__syncwarp();")
    nodes = {one.id: one for one in found.code.barriers_before}
    for parallel in found.code.loops:
        loop = parallel.loop
        if not _stands_in_a_block(loop.node):
            return Refusal("a loop stands without braces under a condition")
        edits += _shared_out(context, parallel, lane, stride)
        for reduction in parallel.reductions:
            if reduction.name not in parallel.fresh:
                nodes[loop.node.id] = loop.node
                befores.setdefault(loop.node.id, []).append(
                    f"if ({lane} != 0) {reduction.name} = 0;  // the first thread keeps what is there"
                )
        lines = [f"{r.name} = {functions.names[(r.kind, r.type)]}({r.name});" for r in parallel.reductions]
        if lines:
            edits.append(_after(context, loop.node, lines))
    first_thread = f"if ({lane} == 0) {{"
    grouped = {group[0].id: group for group in found.code.single}
    for identifier, lines in befores.items():
        node = nodes[identifier]
        if not _stands_in_a_block(node):
            return Refusal("a statement that needs a barrier stands without braces")
        indent = indent_at(unit, node.start_byte)
        edits.append(edit(unit, node.start_byte, node.start_byte, "".join(f"{line}\n{indent}" for line in lines)))
    edits += [_wrapped(context, group, first_thread, layout.step) for group in grouped.values()]
    return edits


def _row_number(context: RewriteContext, found: _Found, scope: str, lane: str) -> list[Edit]:
    unit, declaration = context.unit, found.row.declaration
    value = found.body.definitions[found.row.name]
    if scope == "block":
        return [edit(unit, value.start_byte, value.end_byte, "blockIdx.x")]
    indent = indent_at(unit, declaration.start_byte)
    rows_before = edit(unit, value.start_byte, value.end_byte, "blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32")
    end = declaration.end_byte
    return [rows_before, edit(unit, end, end, f"\n{indent}const int {lane} = threadIdx.x % 32;")]


def _shared_out(context: RewriteContext, parallel: ParallelLoop, lane: str, stride: str) -> list[Edit]:
    loop, unit = parallel.loop, context.unit
    start = code_of(unit, loop.start)
    step = None if loop.step is None else code_of(unit, loop.step)
    if step is not None and not is_primary(step):
        step = f"({step})"
    offset = lane if step is None else f"{lane} * {step}"
    constant = found_zero(start)
    first = offset if constant else f"{start if is_primary(start) else f'({start})'} + {offset}"
    following = stride if step is None else f"{stride} * {step}"
    return [
        edit(unit, loop.start.start_byte, loop.start.end_byte, first),
        edit(unit, loop.update.start_byte, loop.update.end_byte, f"{loop.variable} += {following}"),
    ]


def found_zero(text: str) -> bool:
    return text.strip().rstrip("uUlL") == "0"


def _stands_in_a_block(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "compound_statement"


def _after(context: RewriteContext, node: Node, lines: list[str]) -> Edit:
    """Lines behind a statement, and behind the comment that ends its line."""
    unit = context.unit
    data = unit.source.data
    end_of_line = data.find(b"\n", node.end_byte)
    end_of_line = len(data) if end_of_line < 0 else end_of_line
    rest = data[node.end_byte : end_of_line].strip()
    indent = indent_at(unit, node.start_byte)
    if rest and not rest.startswith(b"//"):
        return edit(unit, node.end_byte, node.end_byte, " " + " ".join(lines))
    at = len(data[:end_of_line].rstrip(b"\r")) if rest else node.end_byte
    return edit(unit, at, at, "".join(f"\n{indent}{line}" for line in lines))


def _wrapped(context: RewriteContext, group: tuple[Node, ...], condition: str, step: str) -> Edit:
    """``if (lane == 0) { ... }`` around neighbouring statements and the comments between them."""
    unit = context.unit
    start, end = group[0].start_byte, group[-1].end_byte
    indent = indent_at(unit, start)
    text = unit.source.data[start:end].decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    inner = reindented(text, indent, indent + step)
    return edit(unit, start, end, f"{condition}\n{indent}{step}{inner}\n{indent}}}")


REWRITE = Rewrite("parallel-row", ("uncoalesced-access", "latency-bound-launch", "low-occupancy"), options, apply)
