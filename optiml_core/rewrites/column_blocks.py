"""The kernel in which a block sums one column: its threads stride down the column, then a tree combines them."""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.block_sizes import known_block_widths
from optiml_core.rewrites.callers import launches_elsewhere, unknown_callers
from optiml_core.rewrites.context import OutsideLaunch, Refusal, RewriteContext
from optiml_core.rewrites.declaration_comment import declared_grid
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, builtins_in, read_kernel, returns_in
from optiml_core.rewrites.launch_text import is_primary
from optiml_core.rewrites.layout import edit, indent_at, line_start, unused_name
from optiml_core.rewrites.loops import CountedLoop, counted_loop
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.placing import insert_functions
from optiml_core.rewrites.polynomials import atom, coefficient
from optiml_core.rewrites.shuffle_reduction import ReductionTree, is_first_thread, reduction_trees
from optiml_core.rewrites.syntax import (
    assignment_of,
    contains,
    declared_variables,
    field,
    names_in,
    squeeze,
    statements_of,
    text_of,
    unwrap,
    walk_types,
)
from optiml_core.rewrites.type_names import resolved_type


@frozen
class ColumnBlock:
    """``column``: the local that is blockIdx.x. ``columns``: the kernel's parameter that says how many there are.

    ``removed``: statements that put the sums into shared memory and combine them. ``last``: the if statement
    in which the first thread stores. ``sum``: the scalar that each thread gathers.
    """

    body: KernelBody
    column: str
    columns: str
    loop: CountedLoop
    sum: str
    tree: ReductionTree
    removed: tuple[Node, ...]
    last: Node


def read_column_block(context: RewriteContext) -> ColumnBlock | Refusal:
    """A block per column, recognised statement by statement."""
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    trees = reduction_trees(body)
    if isinstance(trees, Refusal):
        return trees
    if len(trees) != 1 or trees[0].kind != "sum" or returns_in(body.body):
        return Refusal("the block does not end in one tree of sums")
    tree = trees[0]
    if tree.width is not None and known_block_widths(context) != frozenset({tree.width}):
        return Refusal(f"the tree is one over {tree.width} values, and not every block is known to have as many")
    column = next((n for n, v in body.definitions.items() if body.polynomial(v) == atom("blockIdx.x")), None)
    if column is None:
        return Refusal("no local is the block's number")
    statements = statements_of(body.body)
    loop = next((made for one in statements if (made := _strided(body, one)) is not None), None)
    if loop is None:
        return Refusal("the threads do not stride down the column")
    at = next(index for index, one in enumerate(statements) if one.id == tree.loop.id)
    removed, name = _hand_over(body, statements[:at], tree)
    last = statements[at + 1] if at + 2 == len(statements) else None
    if name is None or last is None or last.type != "if_statement":
        return Refusal("more happens than summing and storing one value")
    if not is_first_thread(body, unwrap(field(last, "condition"))):
        return Refusal("not the first thread stores the sum")
    refusal = _accesses_fit(body, column, loop, last)
    if refusal is not None:
        return refusal
    others = [one for one in statements if one not in removed and one.id not in (tree.loop.id, loop.node.id, last.id)]
    if any(one.type not in ("declaration",) and one not in removed for one in others):
        return Refusal("more happens than summing and storing one value")
    if any(barriers_in(one) for one in others):
        return Refusal("more barriers than those of the tree")
    if (builtins_in(body, body.body) - {"__syncthreads"}) - {"threadIdx.x", "blockDim.x", "blockIdx.x"}:
        return Refusal("the kernel uses more than one row of threads and blocks")
    columns = _number_of_columns(context)
    if isinstance(columns, Refusal):
        return columns
    return ColumnBlock(body, column, columns, loop, name, tree, removed, last)


def _strided(body: KernelBody, node: Node) -> CountedLoop | None:
    loop = counted_loop(node)
    if loop is None or loop.step is None:
        return None
    fits = body.polynomial(loop.start) == atom("threadIdx.x") and body.polynomial(loop.step) == atom("blockDim.x")
    return loop if fits else None


def _hand_over(
    body: KernelBody, statements: tuple[Node, ...], tree: ReductionTree
) -> tuple[tuple[Node, ...], str | None]:
    """``shared[t] = sum; __syncthreads();`` in front of the tree: the statements and the scalar's name."""
    removed: list[Node] = []
    for statement in reversed(statements):
        if squeeze(text_of(statement)) == "__syncthreads();":
            removed.insert(0, statement)
            continue
        made = assignment_of(statement)
        if made is None or made.operator != "=" or made.right is None:
            return (), None
        target = [a for a in accesses_in(body, made.left) if a.array == tree.array]
        value = unwrap(made.right)
        if len(target) != 1 or target[0].index != atom("threadIdx.x") or value.type != "identifier":
            return (), None
        return (statement, *removed), text_of(value)
    return (), None


def _accesses_fit(body: KernelBody, column: str, loop: CountedLoop, last: Node) -> Refusal | None:
    """Loads of the loop must be contiguous across columns; nothing but the last statement stores."""
    keep = frozenset({column, loop.variable})
    across = False
    for access in accesses_in(body, body.body, keep):
        if access.space == "unknown" or access.kind == "address":
            return Refusal("not every access is known to go to one parameter")
        if access.space != "parameter":
            continue
        if access.writes and not contains(last, access.node):
            return Refusal("more is stored than the sum")
        if contains(loop.body, access.node):
            own, along = coefficient(access.index, column), coefficient(access.index, loop.variable)
            across |= own is not None and own.constant == 1 and along is not None and along.constant not in (1, -1)
    return None if across else Refusal("the column's neighbours are not the next columns")


def _number_of_columns(context: RewriteContext) -> str | Refusal:
    """The parameter whose argument every launch also passes as its grid."""
    refusal = unknown_callers(context)
    sites = [OutsideLaunch(context.unit, site) for site in context.unit.launches_of(context.kernel)]
    sites += launches_elsewhere(context)
    if refusal is not None and "launch" not in context.allow:
        return refusal
    names = {parameter.name for parameter in context.kernel.parameters if not parameter.is_pointer}
    declared = declared_grid(context.unit, context.kernel)
    if not sites and declared in names:
        return declared
    if not sites:
        return Refusal("no launch tells how many columns there are")
    found: set[str] | None = None
    for outside in sites:
        grid = _grid_text(outside)
        same = {
            parameter.name
            for parameter, argument in zip(context.kernel.parameters, outside.site.arguments, strict=False)
            if not parameter.is_pointer and squeeze(argument) == squeeze(grid)
        }
        found = same if found is None else found & same
    if not found:
        return Refusal("no parameter is the number of columns at every launch")
    return sorted(found)[0]


def _grid_text(outside: OutsideLaunch) -> str:
    """The grid's width as written, by way of the variable that holds it."""
    text = outside.site.grid.strip()
    if text.isidentifier():
        root = outside.unit.tree.root_node
        found = [
            variable
            for declaration in walk_types(root, "declaration")
            for variable in declared_variables(declaration)
            if variable.name == text
            and variable.value is not None
            and outside.site.function_range is not None
            and outside.site.function_range.start_byte <= declaration.start_byte < outside.site.range.start_byte
        ]
        if len(found) == 1 and found[0].value is not None:
            text = text_of(found[0].value)
    text = text.removeprefix("dim3").strip()
    inner = text[1:-1] if text[:1] in ("(", "{") else text
    return inner if inner.isidentifier() else ""


def column_block_edits(context: RewriteContext, found: ColumnBlock, width: int) -> list[Edit]:
    """The kernel for ``width`` columns a block."""
    unit, body = context.unit, found.body
    type_ = resolved_type(unit, body.locals[found.sum].type)
    functions = insert_functions(context, body, [("sum", type_)], "column")
    own = unused_name("column", names_in(body.body) | body.parameter_names | frozenset(body.macros))
    edits = list(functions.edits)
    limit = found.columns
    edits += column_number(context, body, found.column, own, limit, width)
    edits += _turned_indexes(context, found, body.definitions[found.column])
    first, last_removed = found.removed[0], found.tree.loop
    combine = f"{found.sum} = {functions.names[('sum', type_)]}({found.sum});"
    edits.append(edit(unit, first.start_byte, last_removed.end_byte, combine))
    condition = unwrap(field(found.last, "condition"))
    edits.append(edit(unit, condition.end_byte, condition.end_byte, f" && {own} < {limit}"))
    for access in accesses_in(body, found.last):
        if access.array == found.tree.array:
            edits.append(edit(unit, access.node.start_byte, access.node.end_byte, found.sum))
    edits += _without_shared(context, found)
    return edits


def column_number(context: RewriteContext, body: KernelBody, name: str, own: str, limit: str, width: int) -> list[Edit]:
    """``own``, the thread's column in the launch, and the kernel's ``name`` for it kept below ``limit``."""
    unit, value, variable = context.unit, body.definitions[name], body.locals[name]
    start = variable.declaration.start_byte
    indent = indent_at(unit, start)
    kind = " ".join(word for word in variable.type.split() if word != "const")
    last = f"{limit if is_primary(limit) else f'({limit})'} - 1"
    text = (
        f"const {kind} {own} = blockIdx.x * {width} + threadIdx.x;\n{indent}"
        f"// Threads beyond the last column repeat it without storing, so that all reach the barriers.\n{indent}"
    )
    return [
        edit(unit, start, start, text),
        edit(unit, value.start_byte, value.end_byte, f"{own} < {limit} ? {own} : {last}"),
    ]


def _turned_indexes(context: RewriteContext, found: ColumnBlock, column_value: Node) -> list[Edit]:
    """``threadIdx.x`` and ``blockDim.x`` become ``.y`` outside of what is removed."""
    gone = (*found.removed, found.tree.loop)
    edits = []
    for node in walk_types(found.body.body, "field_expression"):
        text = squeeze(text_of(node))
        if text not in ("threadIdx.x", "blockDim.x") or contains(column_value, node):
            continue
        if any(contains(one, node) for one in gone):
            continue
        edits.append(edit(context.unit, node.start_byte, node.end_byte, text.replace(".x", ".y")))
    return edits


def _without_shared(context: RewriteContext, found: ColumnBlock) -> list[Edit]:
    """The shared array's declaration goes, with its line."""
    unit, declaration = context.unit, found.body.locals[found.tree.array].declaration
    if len(declared_variables(declaration)) != 1:
        return []
    data = unit.source.data
    start, following = line_start(unit, declaration.start_byte), data.find(b"\n", declaration.end_byte)
    if data[start : declaration.start_byte].strip() or data[declaration.end_byte : following].strip():
        return [edit(unit, declaration.start_byte, declaration.end_byte, "")]
    return [edit(unit, start, following + 1, "")]
