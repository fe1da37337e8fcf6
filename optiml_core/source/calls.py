"""Barriers and function calls in a kernel."""

from __future__ import annotations

from typing import Literal

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Kernel, SourceRange
from optiml_core.source.guards import Leaving, conditions_around
from optiml_core.source.memory import remembered
from optiml_core.source.translation_unit import TranslationUnit
from optiml_core.source.tree_queries import called_name, text_of, walk

BarrierScope = Literal["block", "warp", "tile", "grid"]


@frozen
class Barrier:
    """A place where threads wait for each other. ``guards`` are the conditions that hold there: a barrier
    of a block with a guard that differs between threads is divergent."""

    scope: BarrierScope
    range: SourceRange
    guards: tuple[str, ...]


@frozen
class FunctionCall:
    """A call as written. ``is_local``: the file defines a device function of that name."""

    name: str
    function: str  # as written, with template arguments and receiver
    arguments: tuple[str, ...]
    range: SourceRange
    is_local: bool


_BLOCK_BARRIERS = frozenset({"__syncthreads", "__syncthreads_and", "__syncthreads_or", "__syncthreads_count",
                             "__barrier_sync"})  # fmt: skip
_METHODS = frozenset({"sync", "arrive_and_wait"})


def calls_in(unit: TranslationUnit, kernel: Kernel) -> tuple[FunctionCall, ...]:
    """Every call in a kernel's body, in the order of the text."""
    return remembered(unit, ("calls", kernel.range.start_byte), lambda: _calls(unit, kernel))


def _body(unit: TranslationUnit, kernel: Kernel) -> Node | None:
    node = unit.node(kernel)
    return node.child_by_field_name("body") if node is not None else None


def _calls(unit: TranslationUnit, kernel: Kernel) -> tuple[FunctionCall, ...]:
    body = _body(unit, kernel)
    known = {f.name for f in unit.device_functions}
    found: list[FunctionCall] = []
    for node in walk(body) if body is not None else ():
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if node.type != "call_expression" or function is None or arguments is None:
            continue
        name = called_name(function)
        texts = tuple(text_of(a) for a in arguments.named_children if a.type != "comment")
        whole = unit.source.range(node.start_byte, node.end_byte)
        found.append(FunctionCall(name, text_of(function), texts, whole, name in known))
    return tuple(found)


def barriers(unit: TranslationUnit, kernel: Kernel) -> tuple[Barrier, ...]:
    """The barriers in a kernel's body (not in functions that it calls), in the order of the text."""
    body = _body(unit, kernel)
    if body is None:
        return ()
    groups = _groups(body)
    found: list[Barrier] = []
    leaving: Leaving = {}
    for call in calls_in(unit, kernel):
        scope = _scope(call, groups)
        if scope is not None:
            found.append(Barrier(scope, call.range, conditions_around(body, call.range.start_byte, leaving)))
    return tuple(found)


def _scope(call: FunctionCall, groups: dict[str, BarrierScope]) -> BarrierScope | None:
    if call.name in _BLOCK_BARRIERS:
        return "block"
    if call.name == "__syncwarp":
        return "warp"
    if call.name in _METHODS and "." in call.function:
        receiver = call.function.rsplit(".", 1)[0].strip()
        return groups.get(receiver, _group_of(receiver))
    if call.name.endswith("sync") and call.name in ("sync", "cg::sync", "cooperative_groups::sync") and call.arguments:
        return groups.get(call.arguments[0], _group_of(call.arguments[0]))
    return None


def _group_of(made_by: str) -> BarrierScope:
    if "this_grid" in made_by or "grid_group" in made_by:
        return "grid"
    if "this_thread_block" in made_by or "thread_block" in made_by.split("<")[0]:
        return "tile" if "tile" in made_by else "block"
    if "tile" in made_by or "coalesced" in made_by:
        return "tile"
    return "block"


def _groups(body: Node) -> dict[str, BarrierScope]:
    """The cooperative groups that a kernel declares, with what they span."""
    found: dict[str, BarrierScope] = {}
    for node in walk(body):
        if node.type != "declaration":
            continue
        text = text_of(node)
        if not any(w in text for w in ("this_grid", "this_thread_block", "tiled_partition", "coalesced_threads")):
            continue
        for declarator in node.children_by_field_name("declarator"):
            name = declarator.child_by_field_name("declarator")
            value = declarator.child_by_field_name("value")
            if name is not None and value is not None:
                found[text_of(name)] = _group_of("tile" if "tiled" in text_of(value) else text_of(value))
    return found
