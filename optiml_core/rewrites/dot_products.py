"""Recognises the kernel in which every thread computes one element of a matrix product."""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.context import Refusal, RewriteContext
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, builtins_in, read_kernel, returns_in
from optiml_core.rewrites.loops import CountedLoop, counted_loop, literal_trips, loops_in
from optiml_core.rewrites.memory import Access, accesses_in, escaping_pointers
from optiml_core.rewrites.polynomials import coefficient, depends_on
from optiml_core.rewrites.syntax import (
    Assignment,
    assigned_names,
    assignment_of,
    declared_variables,
    names_in,
    same_text,
    statements_of,
    text_of,
    walk_types,
)
from optiml_core.rewrites.thread_coordinates import (
    Bound,
    Coordinate,
    coordinates,
    folded_coordinates,
    guarded_work,
    invariant,
)
from optiml_core.rewrites.type_names import bare_type, resolved_type

SHORTEST_PRODUCT = 32  # rounds of the inner loop; below that a tile is not worth its barriers

_ARITHMETIC = frozenset({"float", "double", "int", "unsigned int"})


@frozen
class Operand:
    """A load of the inner loop that depends on the inner index and on one of the two coordinates.

    ``along_inner``: neighbouring inner indexes are neighbouring elements (else neighbouring coordinates).
    """

    access: Access
    of_row: bool
    along_inner: bool
    type: str


@frozen
class DotProduct:
    """``for k: sum += a[row, k] * b[k, col]`` with what stands before and behind the loop.

    ``row`` and ``column``: the coordinates; the result is contiguous along ``column``. ``before``:
    statements that set ``sum`` up, ``starts_at_zero`` if it is just zero. ``behind``: statements that use it.
    ``helpers``: declarations that only compute values (rows of a matrix, offsets), for whoever needs them.
    """

    body: KernelBody
    row: Coordinate
    column: Coordinate
    bounds: tuple[Bound, ...]
    helpers: tuple[Node, ...]
    before: tuple[Node, ...]
    starts_at_zero: bool
    loop: CountedLoop
    step: Assignment
    sum: str
    sum_type: str
    operands: tuple[Operand, ...]
    behind: tuple[Node, ...]


def read_dot_product(context: RewriteContext) -> DotProduct | Refusal:
    """The matrix product that a kernel computes, or why it is none."""
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    if barriers_in(body.body):
        return Refusal("the kernel has barriers of its own")
    found = coordinates(body) or folded_coordinates(body)
    if len(found) != 2 or len({one.axis for one in found.values()}) != 2:
        return Refusal("the kernel does not work on the elements of a matrix")
    work = guarded_work(body)
    if isinstance(work, Refusal):
        return work
    if work.conditions or len(work.bounds) != 2 or {bound.name for bound in work.bounds} != set(found):
        return Refusal("the guard is not exactly one upper bound of each of the two coordinates")
    for bound in work.bounds:
        limit = frozenset() if bound.node is None else names_in(bound.node) - {bound.name}
        if not invariant(body, limit):
            return Refusal(f"the bound of `{bound.name}` is not the same for all threads")
    if any(returns_in(one) for one in work.work):
        return Refusal("a thread may leave before the barriers that the tiles need")
    helpers = tuple(one for one in work.before if not any(v.name in found for v in declared_variables(one)))
    uses: frozenset[str] = frozenset().union(*(builtins_in(body, one) for one in (*helpers, *work.work)))
    if uses - {"blockIdx.z", "gridDim.z"}:
        return Refusal("the work uses thread or block indexes beside its two coordinates")
    return _read_work(body, found, work.bounds, helpers, work.work)


def _read_work(
    body: KernelBody,
    found: dict[str, Coordinate],
    bounds: tuple[Bound, ...],
    helpers: tuple[Node, ...],
    work: tuple[Node, ...],
) -> DotProduct | Refusal:
    loops = [one for one in work if one.type == "for_statement"]
    if len(loops) != 1 or len(loops_in(loops[0])) != 1:
        return Refusal("the work is not one plain loop over the inner index")
    loop = counted_loop(loops[0])
    if loop is None or loop.step is not None:
        return Refusal("the loop over the inner index does not count up by one")
    trips = literal_trips(body, loop)
    if trips is not None and trips < SHORTEST_PRODUCT:
        return Refusal(f"the inner loop has only {trips} rounds")
    at = next(index for index, one in enumerate(work) if one.id == loops[0].id)
    statements = statements_of(loop.body)
    step = assignment_of(statements[0]) if len(statements) == 1 else None
    if step is None or step.operator != "+=" or step.left.type != "identifier" or step.right is None:
        return Refusal("the loop does not just add up products")
    name = text_of(step.left)
    names = frozenset(found)
    outer = (names_in(loop.start) | names_in(loop.limit)) & (names | frozenset(body.assigned))
    if outer or (names_in(loop.start) | names_in(loop.limit)) & frozenset(body.locals):
        return Refusal("the inner index does not run over the same numbers in every thread")
    operands = _operands(body, step.right, names, loop.variable)
    if isinstance(operands, Refusal):
        return operands
    before = _set_up(body, (*helpers, *work[:at]), name, loop)
    if isinstance(before, Refusal):
        return before
    column = _contiguous_store(body, work[at + 1 :], names)
    if isinstance(column, Refusal):
        return column
    row = next(other for other in names if other != column)
    sides = tuple(
        Operand(
            access,
            depends_on(access.index, [row]),
            (coefficient(access.index, loop.variable) or access.index).constant == 1,
            bare_type(next(p.type for p in body.kernel.parameters if p.name == access.array)),
        )
        for access in operands
    )
    if {side.of_row for side in sides} != {True, False}:
        return Refusal("the loop does not multiply an element of a row by one of a column")
    variable = body.locals.get(name)
    if variable is None or resolved_type(body.unit, variable.type) in ("auto",) or variable.is_pointer:
        return Refusal(f"`{name}` is not a local scalar")
    kept, zero, declared = before
    for side in sides:
        other = column if side.of_row else row
        for helper in needed(declared, names_in(side.access.node)):
            if other in names_in(helper):
                return Refusal(f"`{side.access.array}` is reached by a local that depends on both coordinates")
    return DotProduct(
        body,
        found[row],
        found[column],
        bounds,
        declared,
        kept,
        zero,
        loop,
        step,
        name,
        bare_type(variable.type),
        sides,
        work[at + 1 :],
    )


def _operands(body: KernelBody, product: Node, names: frozenset[str], inner: str) -> tuple[Access, ...] | Refusal:
    """The loads of the product; each must depend on the inner index and on exactly one coordinate."""
    if next(walk_types(product, "call_expression", "assignment_expression", "update_expression"), None):
        return Refusal("the product calls a function")
    accesses = accesses_in(body, product, names | {inner})
    different: list[Access] = []
    for access in accesses:
        if access.space != "parameter" or access.kind != "load" or len(access.indices) != 1:
            return Refusal("the product reads more than arrays that are parameters")
        used = [name for name in names if depends_on(access.index, [name])]
        if len(used) != 1 or not depends_on(access.index, [inner]):
            return Refusal(f"`{text_of(access.node)}` does not depend on the inner index and one coordinate alone")
        if access.index.names & frozenset(body.locals) - names - {inner}:
            return Refusal(f"the index of `{access.array}` depends on other variables")
        if not any(same_text(access.node, other.node) for other in different):
            different.append(access)
    inside = frozenset().union(*(names_in(access.node) for access in accesses))
    scalars = names_in(product) - inside - names - {inner}
    if scalars & (frozenset(body.assigned) | frozenset(body.locals)):
        return Refusal("the product depends on a variable of the kernel")
    if not 2 <= len(different) <= 4:
        return Refusal("the loop does not multiply two elements")
    return tuple(different)


def _set_up(
    body: KernelBody, statements: tuple[Node, ...], name: str, loop: CountedLoop
) -> tuple[tuple[Node, ...], bool, tuple[Node, ...]] | Refusal:
    """The statements that belong to the sum, whether they just say zero, and the declarations of other values."""
    kept = []
    helpers = []
    for statement in statements:
        variables = declared_variables(statement)
        if variables and all(v.value is None and v.name == loop.variable for v in variables):
            continue  # the inner index, declared outside its loop
        if variables and name in {v.name for v in variables}:
            if len(variables) != 1:
                return Refusal(f"`{name}` is declared together with other variables")
            kept.append(statement)
        elif variables:
            if any(v.name not in body.definitions for v in variables):
                return Refusal("a local in front of the loop changes its value")
            if accesses_in(body, statement) or any(walk_types(statement, "call_expression")):
                return Refusal("a declaration in front of the loop does more than compute a value")
            helpers.append(statement)
        elif statement.type == "expression_statement" and assigned_names(statement) == {name}:
            kept.append(statement)
        else:
            return Refusal("something else happens in front of the loop")
    if any(access.writes for one in kept for access in accesses_in(body, one)):
        return Refusal("something is stored in front of the loop")
    zero = False
    if len(kept) == 1:
        variable = next((v for v in declared_variables(kept[0])), None)
        value = None if variable is None else variable.value
        zero = value is not None and text_of(value).rstrip("fFlLuU") in ("0", "0.0", "0.", ".0")
    return tuple(kept), zero, tuple(helpers)


def needed(helpers: tuple[Node, ...], names: frozenset[str]) -> list[Node]:
    """The declarations that code with these names uses, also by way of one another, in order."""
    wanted = set(names)
    chosen: list[Node] = []
    for helper in reversed(helpers):
        if any(variable.name in wanted for variable in declared_variables(helper)):
            chosen.insert(0, helper)
            wanted |= names_in(helper)
    return chosen


def _contiguous_store(body: KernelBody, statements: tuple[Node, ...], names: frozenset[str]) -> str | Refusal:
    """The coordinate along which the result is contiguous."""
    found: set[str] = set()
    for statement in statements:
        if statement.type not in ("expression_statement", "declaration", "if_statement"):
            return Refusal("what follows the loop is more than storing the result")
        if escaping_pointers(body, statement):
            return Refusal("a pointer is handed to another function")
        for access in accesses_in(body, statement, names):
            if not access.writes:
                continue
            if access.space != "parameter" or len(access.indices) != 1:
                return Refusal("the result is not stored to an array that is a parameter")
            for name in names:
                factor = coefficient(access.index, name)
                if factor is not None and factor.constant == 1:
                    found.add(name)
    if len(found) != 1:
        return Refusal("the result is not contiguous along one coordinate")
    return next(iter(found))


def arithmetic_type(body: KernelBody, text: str) -> bool:
    """Whether values of the type can lie in a tile and be multiplied: a builtin scalar."""
    return resolved_type(body.unit, text) in _ARITHMETIC
