"""Loops that run over the same numbers one after another: the passes of a kernel over a row."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen
from tree_sitter import Node

from optiml_core.rewrites.kernel_body import KernelBody, names_given_to_writers
from optiml_core.rewrites.loops import CountedLoop, counted_loop
from optiml_core.rewrites.memory import accesses_in, escaping_pointers
from optiml_core.rewrites.syntax import (
    assigned_names,
    assignments_in,
    called_name,
    declared_variables,
    names_in,
    statements_of,
    walk_types,
)

# Calls whose value changes from call to call, or that other threads take part in.
_IMPURE = ("atomic", "__shfl", "__sync", "__any", "__all", "__ballot", "__match", "__reduce", "clock", "curand", "rand")


@frozen
class Passes:
    """Two loops of one block of statements that run over the same numbers, and the statements between them."""

    first: CountedLoop
    second: CountedLoop
    between: tuple[Node, ...]


def neighbouring_passes(body: KernelBody) -> Iterator[Passes]:
    """Every pair of loops of one block with the same start, limit and step, the nearest pairs first."""
    pairs: list[tuple[int, Passes]] = []
    for block in walk_types(body.body, "compound_statement"):
        statements = statements_of(block)
        loops = [(index, loop) for index, one in enumerate(statements) if (loop := counted_loop(one)) is not None]
        for number, (start, first) in enumerate(loops):
            for end, second in loops[number + 1 :]:
                between = statements[start + 1 : end]
                if first.header == second.header and not _head_changes(first, between):
                    pairs.append((end - start, Passes(first, second, between)))
    return (passes for _, passes in sorted(pairs, key=lambda pair: pair[0]))


def equal_loops(body: KernelBody) -> Iterator[tuple[CountedLoop, ...]]:
    """Groups of two loops or more of one block of statements that run over the same numbers, in source order."""
    for block in walk_types(body.body, "compound_statement"):
        statements = statements_of(block)
        loops = [(index, loop) for index, one in enumerate(statements) if (loop := counted_loop(one)) is not None]
        for number, (start, first) in enumerate(loops):
            if any(earlier.header == first.header for _, earlier in loops[:number]):
                continue
            same = [(end, other) for end, other in loops[number + 1 :] if other.header == first.header]
            if same and not _head_changes(first, statements[start + 1 : same[-1][0]]):
                yield (first, *(other for _, other in same))


def _head_changes(first: CountedLoop, between: tuple[Node, ...]) -> bool:
    names = (
        names_in(first.start) | names_in(first.limit) | (frozenset() if first.step is None else names_in(first.step))
    )
    changed = assigned_names(first.body).union(*(assigned_names(one) for one in between))
    declared = {v.name for one in between for v in declared_variables(one)}
    return bool(names & (changed | declared))


def is_pure(body: KernelBody, node: Node) -> bool:
    """Whether evaluating a node a second time gives the same value and changes nothing."""
    if next(assignments_in(node), None) is not None or next(walk_types(node, "update_expression"), None) is not None:
        return False
    if escaping_pointers(body, node) or names_given_to_writers(body.unit, node):
        return False
    if any(one.kind != "load" or one.space == "unknown" for one in accesses_in(body, node)):
        return False
    names = [called_name(call) for call in walk_types(node, "call_expression")]
    return all(name is not None and not name.startswith(_IMPURE) for name in names)


def needed_declarations(body: KernelBody, inside: Node, wanted: frozenset[str], before: int) -> list[Node] | None:
    """Declarations directly in a loop's body that ``wanted`` names need, in order; None where one is not plain."""
    found: list[Node] = []
    names = set(wanted)
    for statement in reversed([one for one in statements_of(inside) if one.start_byte < before]):
        declared = declared_variables(statement)
        if not {variable.name for variable in declared} & names:
            continue
        if any(v.value is None or v.is_array or v.name in assigned_names(inside) for v in declared):
            return None
        if not all(is_pure(body, v.value) for v in declared if v.value is not None):
            return None
        found.insert(0, statement)
        names |= names_in(statement)
    return found


def locals_of(loop: CountedLoop) -> frozenset[str]:
    """Names declared anywhere inside a loop's body."""
    return frozenset(v.name for one in walk_types(loop.body, "declaration") for v in declared_variables(one))
