"""Kernels whose threads stand for points: the coordinates, the guard around the work, the work."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.context import Refusal
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, returns_in
from optiml_core.rewrites.polynomials import Polynomial, add, atom, coefficient, multiply, spell, subtract
from optiml_core.rewrites.syntax import (
    assignments_in,
    conjuncts,
    disjuncts,
    field,
    operator_of,
    statements_of,
    text_of,
    unwrap,
)

AXES = ("x", "y", "z")


@frozen
class Coordinate:
    """A local that is ``blockIdx.a * blockDim.a + threadIdx.a``. ``type`` is its declared type.

    ``folded``: the threads along the axis are part of a block's one row (see ``folded_coordinates``).
    """

    name: str
    axis: str
    type: str
    declaration: Node
    folded: bool = False


@frozen
class Bound:
    """``name < limit``: the guard of one coordinate. ``limit`` is text in the kernel's names."""

    name: str
    limit: str
    node: Node | None = None


def coordinates(body: KernelBody) -> dict[str, Coordinate]:
    """Every global thread coordinate that the kernel names, by name."""
    found: dict[str, Coordinate] = {}
    for name, node in body.definitions.items():
        variable = body.locals[name]
        if variable.is_pointer:
            continue
        value = body.polynomial(node)
        for axis in AXES:
            if value == global_index(axis):
                found[name] = Coordinate(name, axis, variable.type, variable.declaration)
    return found


def folded_coordinates(body: KernelBody) -> dict[str, Coordinate]:
    """Coordinates of a square tile that a row of threads is folded into.

    ``blockIdx.a * S + threadIdx.x / S`` and ``blockIdx.b * S + threadIdx.x % S``. The axis is the block's.
    """
    found: dict[str, tuple[Coordinate, str, Polynomial]] = {}
    for name, node in body.definitions.items():
        value = body.polynomial(node)
        for axis in AXES:
            scale = coefficient(value, f"blockIdx.{axis}")
            if scale is None or not scale.terms:
                continue
            rest = subtract(value, multiply(scale, atom(f"blockIdx.{axis}")))
            for part in ("/", "%"):
                if rest == atom(f"threadIdx.x{part}{spell(scale)}"):
                    variable = body.locals[name]
                    place = Coordinate(name, axis, variable.type, variable.declaration, folded=True)
                    found[name] = (place, part, scale)
    parts = {part for _, part, _ in found.values()}
    scales = {scale for _, _, scale in found.values()}
    if len(found) != 2 or parts != {"/", "%"} or len(scales) != 1:
        return {}
    return {name: coordinate for name, (coordinate, _, _) in found.items()}


def global_index(axis: str) -> Polynomial:
    """``blockIdx.a * blockDim.a + threadIdx.a``"""
    return add(multiply(atom(f"blockIdx.{axis}"), atom(f"blockDim.{axis}")), atom(f"threadIdx.{axis}"))


def bound_of(condition: Node) -> Bound | None:
    """``x < n``, ``n > x``, ``x <= n``: an upper bound of a plain name, else None."""
    condition = unwrap(condition)
    if condition.type != "binary_expression":
        return None
    left, right = unwrap(field(condition, "left")), unwrap(field(condition, "right"))
    operator = operator_of(condition)
    if operator in (">", ">="):
        left, right, operator = right, left, "<" if operator == ">" else "<="
    if left.type != "identifier" or operator not in ("<", "<="):
        return None
    limit = text_of(right) if operator == "<" else f"{text_of(right)} + 1"
    return Bound(text_of(left), limit, condition)


def escape_of(condition: Node) -> Bound | None:
    """``x >= n`` of a guard that leaves: the bound that holds for those who stay."""
    condition = unwrap(condition)
    if condition.type != "binary_expression":
        return None
    left, right = unwrap(field(condition, "left")), unwrap(field(condition, "right"))
    operator = operator_of(condition)
    if operator in ("<", "<="):
        left, right, operator = right, left, ">" if operator == "<" else ">="
    if left.type != "identifier" or operator not in (">", ">="):
        return None
    limit = text_of(right) if operator == ">=" else f"{text_of(right)} + 1"
    return Bound(text_of(left), limit, condition)


@frozen
class GuardedWork:
    """A kernel body of the shape: declarations, a guard, the work of one point.

    ``before``: statements ahead of the guard. ``bounds``: the guard's upper bounds; ``conditions``: its
    other conjuncts, as nodes. ``work``: the guarded statements. ``guard``: the if statement, or None.
    ``leaves``: the guard is ``if (x >= n) return;``.
    """

    before: tuple[Node, ...]
    guard: Node | None
    leaves: bool
    bounds: tuple[Bound, ...]
    conditions: tuple[Node, ...]
    work: tuple[Node, ...]


def guarded_work(body: KernelBody) -> GuardedWork | Refusal:
    """Takes a body apart into declarations, guard and work; a Refusal if it has another shape.

    Both ``if (x < n) { work }`` at the end and ``if (x >= n) return;`` in front are read. A body with
    no guard is all work after its leading declarations.
    """
    statements = statements_of(body.body)
    before: list[Node] = []
    for index, statement in enumerate(statements):
        if statement.type == "declaration":
            before.append(statement)
            continue
        if statement.type != "if_statement":
            return GuardedWork(tuple(before), None, False, (), (), statements[index:])
        rest = statements[index + 1 :]
        consequence = statements_of(field(statement, "consequence"))
        if len(consequence) == 1 and consequence[0].type == "return_statement" and _has_no_else(statement):
            return _leaving(tuple(before), statement, rest)
        if rest or not _has_no_else(statement):
            return GuardedWork(tuple(before), None, False, (), (), statements[index:])
        return _surrounding(tuple(before), statement, consequence)
    return Refusal("the kernel's body does nothing but declare variables")


def _has_no_else(statement: Node) -> bool:
    return statement.child_by_field_name("alternative") is None


def _leaving(before: tuple[Node, ...], guard: Node, rest: tuple[Node, ...]) -> GuardedWork | Refusal:
    bounds = []
    for condition in disjuncts(field(guard, "condition")):
        bound = escape_of(condition)
        if bound is None:
            return Refusal(f"the guard `{text_of(condition)}` is not an upper bound of a coordinate")
        bounds.append(bound)
    # A second guard right behind the first adds its bounds.
    if rest and rest[0].type == "if_statement" and not names_assigned_between(guard, rest[0]):
        consequence = statements_of(field(rest[0], "consequence"))
        if len(consequence) == 1 and consequence[0].type == "return_statement" and _has_no_else(rest[0]):
            second = _leaving((), rest[0], rest[1:])
            if isinstance(second, GuardedWork):
                return GuardedWork(before, guard, True, (*bounds, *second.bounds), (), second.work)
    return GuardedWork(before, guard, True, tuple(bounds), (), rest)


def names_assigned_between(first: Node, second: Node) -> bool:
    """Whether anything stands between two sibling statements (then the guards are not one guard)."""
    following = first.next_named_sibling
    while following is not None and following.type == "comment":
        following = following.next_named_sibling
    return following is None or following.id != second.id


def _surrounding(before: tuple[Node, ...], guard: Node, work: tuple[Node, ...]) -> GuardedWork:
    bounds: list[Bound] = []
    conditions: list[Node] = []
    for condition in conjuncts(field(guard, "condition")):
        bound = bound_of(condition)
        if bound is None:
            conditions.append(condition)
        else:
            bounds.append(bound)
    # A guard inside the guard, with nothing beside it, is the same guard.
    if len(work) == 1 and work[0].type == "if_statement" and _has_no_else(work[0]):
        inner = _surrounding((), work[0], statements_of(field(work[0], "consequence")))
        if inner.bounds and not inner.conditions:
            return GuardedWork(before, guard, False, (*bounds, *inner.bounds), tuple(conditions), inner.work)
    return GuardedWork(before, guard, False, tuple(bounds), tuple(conditions), work)


def has_early_exit(body: KernelBody) -> bool:
    return bool(returns_in(body.body))


def has_barrier(body: KernelBody) -> bool:
    return bool(barriers_in(body.body))


def invariant(body: KernelBody, text_names: frozenset[str]) -> bool:
    """Whether names mean the same in every thread of the launch: parameters, macros, literals; nothing local."""
    return not any(name in body.locals or name in body.assigned for name in text_names)


def covers(extent: int, blocks: int, threads: int) -> bool:
    """Whether a launch covers an extent with less than one block to spare (so that a new one may be computed)."""
    return extent <= blocks * threads < extent + threads


def side_effect_free(node: Node) -> bool:
    """Whether evaluating an expression twice is the same as once: no assignment, no call but of pure builtins."""
    return next(assignments_in(node), None) is None


def mapping_of_axes(found: Mapping[str, Coordinate]) -> dict[str, Coordinate]:
    """Coordinates by axis; the first name of an axis wins."""
    by_axis: dict[str, Coordinate] = {}
    for coordinate in found.values():
        by_axis.setdefault(coordinate.axis, coordinate)
    return by_axis
