"""Stages strided global loads through a padded shared-memory tile, so that loads and stores are both coalesced.

A warp that reads along a row and writes along a column touches 32 sectors a request for 32 values.
The block therefore first copies a 32 x 32 tile with threads running along the rows of what it
reads, and then writes it with threads running along the rows of what it writes (the pattern of
NVIDIA's "An Efficient Matrix Transpose in CUDA C/C++"). One column of padding keeps the 32 elements
of a tile's column in 32 different banks.
"""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, builtins_in, read_kernel, returns_in
from optiml_core.rewrites.launch_names import extent
from optiml_core.rewrites.launch_text import plan
from optiml_core.rewrites.layout import (
    all_names,
    code_of,
    edit,
    indent_at,
    layout_of,
    lines_of_code,
    source_text,
    substituted,
    unused_name,
)
from optiml_core.rewrites.memory import Access, accesses_in, escaping_pointers
from optiml_core.rewrites.polynomials import coefficient
from optiml_core.rewrites.syntax import (
    assignment_of,
    called_name,
    declared_variables,
    names_in,
    names_in_text,
    statements_of,
    walk_types,
)
from optiml_core.rewrites.thread_coordinates import (
    Bound,
    Coordinate,
    coordinates,
    guarded_work,
    invariant,
)
from optiml_core.rewrites.tiled_transpose import TiledTranspose, read_tiled_transpose, tiled_edits
from optiml_core.rewrites.type_names import bare_type

TILE = 32
ROWS = (8, 16, 4)


@frozen
class _Plan:
    """What was recognised: two coordinates, their bounds, the store, and the loads to stage.

    ``fast``: the coordinate along which the staged loads are contiguous; ``slow``: the one along
    which the store is.
    """

    body: KernelBody
    fast: Coordinate
    slow: Coordinate
    bounds: tuple[Bound, ...]
    helpers: tuple[Node, ...]  # other declarations that the work needs
    work: tuple[Node, ...]
    staged: tuple[Access, ...]


def _recognise(context: RewriteContext) -> _Plan | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    if barriers_in(body.body):
        return Refusal("the kernel has barriers of its own")
    found = coordinates(body)
    if len(found) != 2 or {one.axis for one in found.values()} == {"z"}:
        return Refusal("the kernel does not work on the points of two thread coordinates")
    work = guarded_work(body)
    if isinstance(work, Refusal):
        return work
    if work.conditions or {bound.name for bound in work.bounds} != set(found) or len(work.bounds) != 2:
        return Refusal("the guard is not exactly one upper bound of each of the two coordinates")
    if any(returns_in(statement) for statement in work.work):
        return Refusal("a thread may leave before the barrier that the tile needs")
    for bound in work.bounds:
        limit = frozenset(names_in(bound.node)) - {bound.name} if bound.node is not None else frozenset()
        if not invariant(body, limit):
            return Refusal(f"the bound of `{bound.name}` is not the same for all threads")
    helpers = tuple(one for one in work.before if not any(v.name in found for v in declared_variables(one)))
    if any(not _is_pure(body, one) for one in helpers):
        return Refusal("a declaration in front of the guard does more than compute a value")
    return _classify(body, found, work.bounds, helpers, work.work)


def _is_pure(body: KernelBody, declaration: Node) -> bool:
    """Whether a declaration may be repeated: it calls nothing, loads nothing and is never assigned again."""
    if next(walk_types(declaration, "call_expression", "subscript_expression", "update_expression"), None):
        return False
    return all(variable.name in body.definitions for variable in declared_variables(declaration))


def _classify(
    body: KernelBody,
    found: dict[str, Coordinate],
    bounds: tuple[Bound, ...],
    helpers: tuple[Node, ...],
    work: tuple[Node, ...],
) -> _Plan | Refusal:
    names = frozenset(found)
    uses = frozenset().union(*(builtins_in(body, node) for node in (*helpers, *work)))
    if uses - {"blockIdx.z", "gridDim.z"}:
        return Refusal("the work uses thread or block indexes beside its two coordinates")
    if any(called_name(call) is None for node in work for call in walk_types(node, "call_expression")):
        return Refusal("the work calls something that is not understood")
    accesses = [access for node in work for access in accesses_in(body, node, names)]
    if any(escaping_pointers(body, node) for node in work) or any(access.kind == "address" for access in accesses):
        return Refusal("a pointer is handed to another function")
    if any(access.space == "unknown" or len(access.indices) != 1 for access in accesses):
        return Refusal("not every access goes to an array that is a parameter")
    stores = [access for access in accesses if access.writes]
    if len(stores) != 1 or stores[0].kind != "store" or assignment_of(work[-1]) is None:
        return Refusal("the kernel does not end in exactly one store")
    if any(node.type not in ("declaration", "expression_statement") for node in work):
        return Refusal("the work is not a plain sequence of declarations and one store")
    loads = [access for access in accesses if not access.writes]
    directions = {access.node.id: _direction(access, names) for access in accesses}
    slow = directions[stores[0].node.id]
    if slow is None:
        return Refusal("the store is contiguous along neither coordinate")
    fast = next(name for name in names if name != slow)
    staged = [access for access in loads if directions[access.node.id] == fast]
    if not staged:
        if found[slow].axis == "x" or not loads:
            return Refusal("no load is strided along the direction of the store")
        return Refusal("every access is strided the same way: swapping the thread roles is enough")
    if len(staged) > 2:
        return Refusal("more than two loads would need a tile")
    if any(access.array == stores[0].array for access in staged):
        return Refusal("a staged load reads the array that is written")
    if any(variable.is_pointer for node in work for variable in declared_variables(node)):
        return Refusal("the work declares pointers")
    return _Plan(body, found[fast], found[slow], bounds, helpers, work, tuple(staged))


def _direction(access: Access, names: frozenset[str]) -> str | None:
    """The coordinate along which neighbouring threads touch neighbouring elements, if there is one."""
    contiguous = []
    for name in sorted(names):
        factor = coefficient(access.index, name)
        if factor is None:
            return None
        if factor.constant == 1:
            contiguous.append(name)
    return contiguous[0] if len(contiguous) == 1 else None


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = []
    if isinstance(read_tiled_transpose(context), TiledTranspose):
        found.append(Option({"tile": 0, "rows": 0}, "a tile of the block's own size, the launch as it is"))
    for rows in ROWS:
        option = Option({"tile": TILE, "rows": rows}, f"tiles of {TILE} x {TILE} with {TILE} x {rows} threads")
        if isinstance(apply(context, option), Rewritten):
            found.append(option)
    if found:
        return tuple(found)
    refused = apply(context, Option({"tile": TILE, "rows": ROWS[0]}))
    return refused if isinstance(refused, Refusal) else ()


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    tile, rows = int(option.parameters["tile"]), int(option.parameters["rows"])
    if tile == 0:
        return _apply_to_tile_loop(context)
    recognised = _recognise(context)
    if isinstance(recognised, Refusal):
        return recognised
    body = recognised.body
    extents = {bound.name: bound.limit for bound in recognised.bounds}
    grid = {"x": "1", "y": "1", "z": "grid.z"}
    for coordinate in (recognised.fast, recognised.slow):
        grid[coordinate.axis] = f"ceil_div({extent(body, extents[coordinate.name], coordinate.axis)}, {tile})"
    launch = plan((grid["x"], grid["y"], grid["z"]), (str(tile), str(rows), "1"))
    first, last = statements_of(body.body)[0], statements_of(body.body)[-1]
    indent = indent_at(context.unit, first.start_byte)
    text = lines_of_code(_new_lines(context, recognised, tile, rows), layout_of(context.unit, body.body), indent)
    arrays = " and ".join(f"`{access.array}`" for access in recognised.staged)
    rationale = _rationale(f"A {tile} x {tile} tile", arrays)
    edits = [edit(context.unit, first.start_byte, last.end_byte, text[len(indent) :])]
    return finish(context, body, edits, rationale, launch=launch)


def _rationale(tile: str, arrays: str) -> str:
    return (
        f"{tile} in shared memory turns the strided accesses to {arrays} into coalesced ones; "
        "one column of padding avoids bank conflicts."
    )


def _apply_to_tile_loop(context: RewriteContext) -> Rewritten | Refusal:
    found = read_tiled_transpose(context)
    if isinstance(found, Refusal):
        return found
    edits, guards = tiled_edits(context, found)
    strided = found.load if found.staged_is_load else found.store
    rationale = _rationale(f"A tile of {found.tile} x {found.tile}", f"`{strided.array}`")
    return finish(context, found.body, edits, rationale, guards=guards)


def _new_lines(context: RewriteContext, found: _Plan, tile: int, rows: int) -> list[str]:
    body, unit = found.body, context.unit
    taken = set(all_names(unit))
    step = unused_name("j", names_in(body.body))
    lines = _leading_comments(context, found)
    # An element that is read twice is staged once; two elements of one array have a tile each.
    staged = {code_of(unit, access.node): access for access in found.staged}
    names: dict[str, str] = {}
    for element_code, access in staged.items():
        wanted = "tile" if len(staged) == 1 else f"{access.array}_tile"
        name = names[element_code] = unused_name(wanted, [*names_in(body.body), *names.values()])
        kind = next(p.type for p in body.kernel.parameters if p.name == access.array)
        element = bare_type(kind)
        lines.append(f"__shared__ {element} {name}[{tile}][{tile + 1}];  // one more column: no bank conflicts")
    corners = {}
    for one in (found.fast, found.slow):
        corners[one.name] = unused_name(f"tile_{one.name}", taken)
        lines.append(f"const {_plain(one.type)} {corners[one.name]} = blockIdx.{one.axis} * {tile};")
    condition = " && ".join(f"{bound.name} < {bound.limit}" for bound in found.bounds)
    header = f"for (int {step} = threadIdx.y; {step} < {tile}; {step} += {rows}) {{"

    fill = [f"{name}[{step}][threadIdx.x] = {element_code};" for element_code, name in names.items()]
    lines += _phase(context, found, header, corners, (found.fast, found.slow), step, condition, fill)
    lines.append("__syncthreads();")
    replacements = [
        (access.node, f"{names[code_of(unit, access.node)]}[threadIdx.x][{step}]") for access in found.staged
    ]
    work = [substituted(unit, node, replacements) for node in found.work]
    lines += _phase(context, found, header, corners, (found.slow, found.fast), step, condition, work)
    return lines


def _phase(
    context: RewriteContext,
    found: _Plan,
    header: str,
    corners: dict[str, str],
    order: tuple[Coordinate, Coordinate],
    step: str,
    condition: str,
    work: list[str],
) -> list[str]:
    """One loop over the rows of the tile; ``order``: the coordinate along the warp, then the other."""
    along, across = order
    values = {along.name: f"{corners[along.name]} + threadIdx.x", across.name: f"{corners[across.name]} + {step}"}
    lines = [header]
    declared = sorted((found.fast, found.slow), key=lambda one: one.declaration.start_byte)
    lines += [f"\tconst {_plain(one.type)} {one.name} = {values[one.name]};" for one in declared]
    lines += [f"\t{code_of(context.unit, helper)}" for helper in _needed(found, work)]
    lines.append(f"\tif ({condition}) {{")
    lines += [f"\t\t{statement}" for statement in work]
    return [*lines, "\t}", "}"]


def _needed(found: _Plan, work: list[str]) -> list[Node]:
    """The declarations in front of the guard that a phase's work uses, also by way of one another."""
    wanted = set().union(*(names_in_text(text) for text in work)) | {
        name for bound in found.bounds for name in names_in_text(bound.limit)
    }
    chosen: list[Node] = []
    for helper in reversed(found.helpers):
        if any(variable.name in wanted for variable in declared_variables(helper)):
            chosen.insert(0, helper)
            wanted |= names_in(helper)
    return chosen


def _plain(kind: str) -> str:
    return " ".join(word for word in kind.split() if word != "const")


def _leading_comments(context: RewriteContext, found: _Plan) -> list[str]:
    """Comments at the top of the body up to the work stay at the top."""
    start, end = statements_of(found.body.body)[0].start_byte, found.work[0].start_byte
    return [
        source_text(context.unit, node.start_byte, node.end_byte).strip()
        for node in walk_types(found.body.body, "comment")
        if start < node.start_byte < end
    ]


REWRITE = Rewrite("shared-tile-transpose", ("uncoalesced-access",), options, apply)
