"""Matrix product by tiles: a block loads tiles into shared memory, a thread keeps a tile of results in registers.

Each element that a thread loads from shared memory is then used as often as its register tile is wide
or high, and each element from global memory as often as the block's tile is (the classical scheme of
blocked matrix multiplication; see also "CUTLASS: Fast Linear Algebra in CUDA C++").
"""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.dot_products import DotProduct, Operand, arithmetic_type, needed, read_dot_product
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.launch_names import extent
from optiml_core.rewrites.launch_text import is_primary, plan
from optiml_core.rewrites.layout import (
    code_of,
    comments_before,
    edit,
    indent_at,
    layout_of,
    lines_of_code,
    substituted,
    unused_name,
    with_comments,
)
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.syntax import names_in, same_text, statements_of
from optiml_core.rewrites.thread_coordinates import Bound, Coordinate


@frozen
class _Tiles:
    """Rows, columns and depth of a block's tile, rows and columns of a thread's."""

    rows: int
    columns: int
    depth: int
    thread_rows: int
    thread_columns: int

    @property
    def threads(self) -> int:
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)


TILES = (
    _Tiles(128, 128, 16, 8, 16),
    _Tiles(128, 128, 16, 8, 8),
    _Tiles(128, 128, 8, 8, 8),
    _Tiles(64, 64, 16, 4, 4),
    _Tiles(64, 64, 8, 8, 8),
    _Tiles(32, 32, 16, 2, 2),
)


@frozen
class _Names:
    """Names of the new code, none of them taken in the kernel."""

    row_start: str
    column_start: str
    depth_start: str
    at: str
    part: str
    sums: str
    own_row: str
    own_column: str
    i: str
    j: str
    inner: str
    tiles: tuple[str, ...]
    values: tuple[str, ...]


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = []
    refusal: Refusal | None = None
    for tiles in TILES:
        parameters = {
            "rows": tiles.rows,
            "columns": tiles.columns,
            "depth": tiles.depth,
            "thread_rows": tiles.thread_rows,
            "thread_columns": tiles.thread_columns,
        }
        option = Option(
            parameters,
            f"blocks of {tiles.rows} x {tiles.columns}, {tiles.thread_rows} x {tiles.thread_columns} a thread",
        )
        made = apply(context, option)
        if isinstance(made, Refusal):
            refusal = made
            break
        found.append(option)
    return tuple(found) if found else refusal or Refusal("no tile fits")


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    found = read_dot_product(context)
    if isinstance(found, Refusal):
        return found
    p = option.parameters
    tiles = _Tiles(int(p["rows"]), int(p["columns"]), int(p["depth"]), int(p["thread_rows"]), int(p["thread_columns"]))
    body = found.body
    if any(not arithmetic_type(body, one.type) and "DATA_TYPE" not in one.type for one in found.operands):
        return Refusal("the operands are not of a builtin arithmetic type")
    limits = {bound.name: bound.limit for bound in found.bounds}
    grid = {"x": "1", "y": "1", "z": "grid.z"}
    for one, size in ((found.row, tiles.rows), (found.column, tiles.columns)):
        points = extent(body, limits[one.name], one.axis)
        if one.folded and points != limits[one.name]:
            return Refusal(f"the bound of `{one.name}` is not known where the kernel is launched")
        grid[one.axis] = f"ceil_div({points}, {size})"
    launch = plan((grid["x"], grid["y"], grid["z"]), (str(tiles.threads), "1", "1"))
    statements = statements_of(body.body)
    indent = indent_at(context.unit, statements[0].start_byte)
    text = lines_of_code(_lines(context, found, tiles), layout_of(context.unit, body.body), indent)
    rationale = (
        f"Tiles of {tiles.rows} x {tiles.columns} with {tiles.thread_rows} x {tiles.thread_columns} results a thread: "
        f"each element loaded from global memory is used {tiles.columns} or {tiles.rows} times instead of once."
    )
    start, end = _first_byte(context, statements[0]), statements[-1].end_byte
    return finish(context, body, [edit(context.unit, start, end, text[len(indent) :])], rationale, launch=launch)


def _first_byte(context: RewriteContext, statement: Node) -> int:
    """Where the body's text begins, its leading comments with it."""
    start, previous = statement.start_byte, statement.prev_named_sibling
    for _ in comments_before(context.unit, statement):
        if previous is not None:
            start, previous = previous.start_byte, previous.prev_named_sibling
    return start


def _chosen(taken: frozenset[str], *wanted: str) -> str:
    return next((one for one in wanted if one not in taken), unused_name(wanted[0], taken))


def _names(found: DotProduct) -> _Names:
    body = found.body
    taken = names_in(body.body) | body.parameter_names | frozenset(body.macros)
    base = {False: "column", True: "row"}
    arrays = [one.access.array for one in found.operands]
    labels: list[str] = []
    for array, one in zip(arrays, found.operands, strict=True):
        label = array if arrays.count(array) == 1 else f"{array}_{base[one.of_row]}"
        labels.append(unused_name(label, labels))
    return _Names(
        unused_name(f"first_{found.row.name}", taken),
        unused_name(f"first_{found.column.name}", taken),
        unused_name(f"first_{found.loop.variable}", taken),
        _chosen(taken, "at", "element"),
        _chosen(taken, "part", "fill"),
        _chosen(taken, "sums", "results"),
        _chosen(taken, "own_row"),
        _chosen(taken, "own_column"),
        _chosen(taken, "i", "r", "m"),
        _chosen(taken, "j", "c", "n"),
        _chosen(taken | {found.loop.variable}, "k", "inner"),
        tuple(unused_name(f"{label}_tile", taken) for label in labels),
        tuple(unused_name(f"{label}_values", taken) for label in labels),
    )


def _lines(context: RewriteContext, found: DotProduct, tiles: _Tiles) -> list[str]:
    unit, names = context.unit, _names(found)
    column_kind, row_kind = _plain(found.column.type), _plain(found.row.type)
    lines = comments_before(unit, statements_of(found.body.body)[0])
    lines += [
        f"// A block computes a tile of {tiles.rows} x {tiles.columns}, a thread {tiles.thread_rows} x "
        f"{tiles.thread_columns} of its elements."
    ]
    for operand, tile in zip(found.operands, names.tiles, strict=True):
        width = tiles.rows if operand.of_row else tiles.columns
        # Four more columns where neighbouring threads fill a column: it then lies in different banks,
        # and rows still begin at multiples of 16 bytes.
        padded = f"{width} + 4" if operand.along_inner else str(width)
        lines.append(f"__shared__ __align__(16) {operand.type} {tile}[{tiles.depth}][{padded}];")
    lines.append(f"const {row_kind} {names.row_start} = blockIdx.{found.row.axis} * {tiles.rows};")
    lines.append(f"const {column_kind} {names.column_start} = blockIdx.{found.column.axis} * {tiles.columns};")
    across = tiles.columns // tiles.thread_columns
    group = min(4, tiles.thread_columns)
    lines.append(f"const int {names.own_row} = threadIdx.x / {across} * {tiles.thread_rows};")
    lines.append(f"const int {names.own_column} = threadIdx.x % {across} * {group};")
    both = {found.row.name, found.column.name}
    lines += [code_of(unit, helper) for helper in found.helpers if not _depends(found, helper, both)]
    lines += _start(context, found, tiles, names)
    depth = names.depth_start
    start, limit = code_of(unit, found.loop.start), found.loop.limit_text
    kind = found.loop.type or "int"
    lines.append(f"for ({_plain(kind)} {depth} = {start}; {depth} < {limit}; {depth} += {tiles.depth}) {{")
    for operand, tile in zip(found.operands, names.tiles, strict=True):
        lines += [f"\t{line}" for line in _fill(context, found, tiles, names, operand, tile)]
    lines.append("\t__syncthreads();")
    lines += [f"\t{line}" for line in _multiply(context, found, tiles, names)]
    lines += ["\t__syncthreads();", "}"]
    behind = [f"{_plain(found.sum_type)} {found.sum} = {names.sums}[{names.i}][{names.j}];"]
    behind += [*_local_helpers(context, found, found.behind), *with_comments(unit, found.behind)]
    return lines + _each_element(found, tiles, names, behind)


def _depends(found: DotProduct, helper: Node, names: set[str]) -> bool:
    """Whether a declaration depends on one of the names, also by way of the declarations it uses."""
    return any(names_in(one) & names for one in (helper, *needed(found.helpers, names_in(helper))))


def _local_helpers(context: RewriteContext, found: DotProduct, nodes: tuple[Node, ...]) -> list[str]:
    """The declarations that depend on the element and that the nodes use."""
    both = {found.row.name, found.column.name}
    used: frozenset[str] = frozenset().union(*(names_in(node) for node in nodes))
    chosen = [helper for helper in needed(found.helpers, used) if _depends(found, helper, both)]
    return [code_of(context.unit, helper) for helper in chosen]


def _plain(kind: str) -> str:
    return " ".join(word for word in kind.split() if word != "const")


def _start(context: RewriteContext, found: DotProduct, tiles: _Tiles, names: _Names) -> list[str]:
    """The results' first values: zero, or what the kernel computes in front of its loop."""
    declared = f"{_plain(found.sum_type)} {names.sums}[{tiles.thread_rows}][{tiles.thread_columns}] = {{}};"
    if found.starts_at_zero:
        return [declared]
    work = [*_local_helpers(context, found, found.before), *with_comments(context.unit, found.before)]
    return [
        declared,
        *_each_element(found, tiles, names, [*work, f"{names.sums}[{names.i}][{names.j}] = {found.sum};"]),
    ]


def _element_column(tiles: _Tiles, names: _Names) -> str:
    """Columns of a thread lie in groups of four, so that a warp's 16-byte loads of a tile's row meet no conflict."""
    if tiles.thread_columns <= 4:
        return f"{names.own_column} + {names.j}"
    groups = tiles.columns // (tiles.thread_columns // 4)
    return f"{names.own_column} + {names.j} / 4 * {groups} + {names.j} % 4"


def _each_element(found: DotProduct, tiles: _Tiles, names: _Names, work: list[str]) -> list[str]:
    """Loops over a thread's elements with the kernel's own guard around ``work``."""
    condition = " && ".join(_holds(bound) for bound in found.bounds)
    own = sorted((found.row, found.column), key=lambda one: one.declaration.start_byte)
    values = {
        found.row.name: f"{names.row_start} + {names.own_row} + {names.i}",
        found.column.name: f"{names.column_start} + {_element_column(tiles, names)}",
    }
    return [
        "#pragma unroll",
        f"for (int {names.i} = 0; {names.i} < {tiles.thread_rows}; {names.i}++) {{",
        "\t#pragma unroll",
        f"\tfor (int {names.j} = 0; {names.j} < {tiles.thread_columns}; {names.j}++) {{",
        *(f"\t\tconst {_plain(one.type)} {one.name} = {values[one.name]};" for one in own),
        f"\t\tif ({condition}) {{",
        *(f"\t\t\t{line}" for line in work),
        "\t\t}",
        "\t}",
        "}",
    ]


def _holds(bound: Bound) -> str:
    return f"{bound.name} < {bound.limit}"


def _fill(
    context: RewriteContext, found: DotProduct, tiles: _Tiles, names: _Names, operand: Operand, tile: str
) -> list[str]:
    """All threads load one tile, neighbouring threads neighbouring elements; zeros beyond the edge."""
    one: Coordinate = found.row if operand.of_row else found.column
    width = tiles.rows if operand.of_row else tiles.columns
    first = names.row_start if operand.of_row else names.column_start
    bound = next(bound for bound in found.bounds if bound.name == one.name)
    at, inner = names.at, found.loop.variable
    if operand.along_inner:
        in_depth, in_width = f"{at} % {tiles.depth}", f"{at} / {tiles.depth}"
    else:
        in_depth, in_width = f"{at} / {width}", f"{at} % {width}"
    limit = found.loop.limit_text
    inside = f"{_holds(bound)} && {inner} < {limit if is_primary(limit) else f'({limit})'}"
    value = code_of(context.unit, operand.access.node)
    return [
        # A number of rounds that the compiler knows: all of a thread's loads are then under way at once.
        "#pragma unroll",
        f"for (int {names.part} = 0; {names.part} < {tiles.depth * width // tiles.threads}; {names.part}++) {{",
        f"\tconst int {at} = threadIdx.x + {names.part} * {tiles.threads};",
        f"\tconst {_plain(one.type)} {one.name} = {first} + {in_width};",
        f"\tconst {_plain(found.loop.type or 'int')} {inner} = {names.depth_start} + {in_depth};",
        *(f"\t{line}" for line in _local_helpers(context, found, (operand.access.node,))),
        f"\t{tile}[{in_depth}][{in_width}] = {inside} ? {value} : 0;",
        "}",
    ]


def _multiply(context: RewriteContext, found: DotProduct, tiles: _Tiles, names: _Names) -> list[str]:
    inner, i, j = names.inner, names.i, names.j
    lines = ["#pragma unroll", f"for (int {inner} = 0; {inner} < {tiles.depth}; {inner}++) {{"]
    for operand, tile, values in zip(found.operands, names.tiles, names.values, strict=True):
        count = tiles.thread_rows if operand.of_row else tiles.thread_columns
        index = i if operand.of_row else j
        place = f"{names.own_row} + {i}" if operand.of_row else _element_column(tiles, names)
        lines += [
            f"\t{operand.type} {values}[{count}];",
            "\t#pragma unroll",
            f"\tfor (int {index} = 0; {index} < {count}; {index}++) {{",
            f"\t\t{values}[{index}] = {tile}[{inner}][{place}];",
            "\t}",
        ]
    right = found.step.right
    assert right is not None
    replacements = []
    for access in accesses_in(found.body, right):
        for operand, values in zip(found.operands, names.values, strict=True):
            if same_text(access.node, operand.access.node):
                replacements.append((access.node, f"{values}[{i if operand.of_row else j}]"))
                break
    product = substituted(context.unit, right, replacements)
    return [
        *lines,
        "\t#pragma unroll",
        f"\tfor (int {i} = 0; {i} < {tiles.thread_rows}; {i}++) {{",
        "\t\t#pragma unroll",
        f"\t\tfor (int {j} = 0; {j} < {tiles.thread_columns}; {j}++) {{",
        f"\t\t\t{names.sums}[{i}][{j}] += {product};",
        "\t\t}",
        "\t}",
        "}",
    ]


REWRITE = Rewrite(
    "register-tile-matmul", ("redundant-global-traffic", "uncoalesced-access", "latency-bound-launch"), options, apply
)
