"""From one thread per row to many: which loops of a row can be shared out, and where threads must wait.

Code of one row falls into three kinds. *Parallel loops* run over the row with every thread taking
its share of the rounds. *Row-scope* code computes scalars, in every thread alike. *Stores at row
scope* are made by one thread. Memory order between them is kept by barriers where two threads touch
one array and one of them writes.
"""

from __future__ import annotations

from typing import Literal

from attrs import define, field, frozen
from tree_sitter import Node

from optiml_core.rewrites.context import Refusal
from optiml_core.rewrites.kernel_body import KernelBody, names_given_to_writers
from optiml_core.rewrites.loops import CountedLoop, counted_loop, literal_trips, loops_in
from optiml_core.rewrites.memory import accesses_in, escaping_pointers
from optiml_core.rewrites.polynomials import Polynomial, atom, coefficient, depends_on
from optiml_core.rewrites.reductions import Reduction, reduction_of
from optiml_core.rewrites.syntax import (
    assigned_names,
    assignment_of,
    assignments_in,
    called_name,
    contains,
    declared_variables,
    names_in,
    statements_of,
    text_of,
    walk_types,
)
from optiml_core.rewrites.syntax import field as child

SHORTEST_LOOP = 32  # rounds; a shorter loop leaves threads of a warp without work

# The loop variable in an index, whatever its name, so that loops over the same numbers compare equal.
_ROUND = "the round"


@frozen
class ParallelLoop:
    """A loop whose rounds are shared out, with the scalars that must be combined after it."""

    loop: CountedLoop
    reductions: tuple[Reduction, ...]
    fresh: frozenset[str]  # reductions that are known to start at zero


@frozen
class RowCode:
    """What becomes of one row's statements.

    ``single``: groups of neighbouring statements that one thread runs. ``barriers_before``: statements
    before which all threads of the row must have arrived.
    """

    loops: tuple[ParallelLoop, ...]
    single: tuple[tuple[Node, ...], ...]
    barriers_before: tuple[Node, ...]


Who = Literal["all", "one", "share"]


@frozen
class _Event:
    """One touch of an array: by all threads, by one, or by each for its own rounds (``place`` tells which)."""

    array: str
    who: Who
    writes: bool
    place: tuple[str, Polynomial] | None = None

    def conflicts(self, other: _Event) -> bool:
        if self.array != other.array or not (self.writes or other.writes):
            return False
        if self.who == "one" and other.who == "one":
            return False
        same_share = self.who == "share" and other.who == "share" and self.place == other.place
        return not (same_share and self.place is not None)


@define
class _Reader:
    """Collects what is found while the statements of a row are read in order."""

    body: KernelBody
    row: str
    barrier_in_collectives: bool
    loops: list[ParallelLoop] = field(factory=list)
    single: list[tuple[Node, ...]] = field(factory=list)
    barriers: list[Node] = field(factory=list)
    pending: list[_Event] = field(factory=list)
    why_not: Refusal | None = None  # of the first loop that was not shared out

    def arrive(self) -> None:
        self.pending.clear()

    def touch(self, statement: Node, events: list[_Event]) -> None:
        """Notes accesses of a statement; puts a barrier before it if an earlier one of another thread conflicts."""
        if statement in self.barriers:
            self.arrive()
        if any(new.conflicts(old) for new in events for old in self.pending):
            self.barriers.append(statement)
            self.arrive()
        self.pending.extend(events)


def read_row(
    body: KernelBody, statements: tuple[Node, ...], row: str, collective_is_barrier: bool
) -> RowCode | Refusal:
    """Reads the statements of one row. ``row`` is the coordinate's name."""
    reader = _Reader(body, row, collective_is_barrier)
    refusal = _read_statements(reader, statements)
    if refusal is not None:
        return refusal
    if not reader.loops:
        return reader.why_not or Refusal("no loop over a row can be shared out")
    refusal = _check_loop_variables(reader)
    if refusal is not None:
        return refusal
    return RowCode(tuple(dict.fromkeys(reader.loops)), tuple(dict.fromkeys(reader.single)), tuple(reader.barriers))


def _read_statements(reader: _Reader, statements: tuple[Node, ...]) -> Refusal | None:
    index = 0
    while index < len(statements):
        statement = statements[index]
        group = _single_group(reader, statements[index:])
        if isinstance(group, Refusal):
            return group
        if group:
            reader.touch(group[0], [event for one in group for event in _events(reader, one, "one")])
            reader.single.append(group)
            index += len(group)
            continue
        refusal = _read_statement(reader, statement, statements[:index])
        if refusal is not None:
            return refusal
        index += 1
    return None


def _single_group(reader: _Reader, statements: tuple[Node, ...]) -> tuple[Node, ...] | Refusal:
    """The leading statements that store to memory at row scope."""
    group: list[Node] = []
    for statement in statements:
        if statement.type != "expression_statement" or not _stores(reader.body, statement):
            break
        if assigned_names(statement):
            return Refusal("a store at row scope assigns a scalar too")
        group.append(statement)
    return tuple(group)


def _stores(body: KernelBody, node: Node) -> bool:
    return any(access.writes for access in accesses_in(body, node)) or bool(_atomics(node))


def _atomics(node: Node) -> tuple[Node, ...]:
    return tuple(call for call in walk_types(node, "call_expression") if (called_name(call) or "").startswith("atomic"))


def _read_statement(reader: _Reader, statement: Node, before: tuple[Node, ...]) -> Refusal | None:
    match statement.type:
        case "declaration" | "expression_statement":
            if statement.type == "declaration" and _stores(reader.body, statement):
                return Refusal("a declaration stores to memory")
            refusal = _understood(reader.body, statement)
            if refusal is None:
                reader.touch(statement, _events(reader, statement, "all"))
            return refusal
        case "for_statement":
            return _read_loop(reader, statement, before)
        case "if_statement":
            return _read_branch(reader, statement)
        case "compound_statement":
            return _read_statements(reader, statements_of(statement))
        case "return_statement" if not statement.named_children:
            return None  # all threads of the row leave
        case "while_statement" | "do_statement":
            return Refusal("a loop at row scope is not a counted one")
        case _:
            return Refusal(f"`{text_of(statement).splitlines()[0]}` at row scope is not understood")


def _read_branch(reader: _Reader, statement: Node) -> Refusal | None:
    condition = child(statement, "condition")
    if next(assignments_in(condition), None) is not None:
        return Refusal("a condition at row scope assigns")
    reader.touch(statement, _events(reader, condition, "all"))
    for name in ("consequence", "alternative"):
        branch = statement.child_by_field_name(name)
        if branch is not None:
            refusal = _read_statements(reader, statements_of(branch))
            if refusal is not None:
                return refusal
    return None


def _read_loop(reader: _Reader, statement: Node, before: tuple[Node, ...]) -> Refusal | None:
    loop = counted_loop(statement)
    if loop is None:
        return Refusal("a loop at row scope is not a counted one")
    shared_out = _parallel_loop(reader, loop, before)
    if isinstance(shared_out, ParallelLoop):
        reader.touch(statement, _share_events(reader, loop))
        reader.loops.append(shared_out)
        if shared_out.reductions and reader.barrier_in_collectives:
            reader.arrive()
        return None
    reader.why_not = reader.why_not or shared_out
    # Not shared out: every thread runs the loop, and what is inside is row scope again.
    heads = [loop.start, loop.limit]
    reader.touch(statement, [event for node in heads for event in _events(reader, node, "all")])
    found = len(reader.loops)
    # Read twice: the end of one round comes before the start of the next.
    for _ in range(2):
        if _read_statements(reader, statements_of(loop.body)) is not None:
            return shared_out
    works = accesses_in(reader.body, loop.body)
    if len(reader.loops) == found and works:
        trips = literal_trips(reader.body, loop)
        if trips is None or trips >= SHORTEST_LOOP:
            return shared_out
    return None


def _understood(body: KernelBody, node: Node) -> Refusal | None:
    for call in walk_types(node, "call_expression"):
        name = called_name(call)
        if name is None or name.startswith("__shfl") or name in ("printf", "assert"):
            return Refusal(f"the call of {name or 'something'} at row scope is not understood")
    if escaping_pointers(body, node) or _atomics(node) or _written_by_calls(body, node):
        return Refusal("a pointer is handed to another function")
    return None


def _events(reader: _Reader, node: Node, who: Who) -> list[_Event]:
    return [_Event(access.array, who, access.writes) for access in accesses_in(reader.body, node)] + [
        _Event(name, who, True) for name in escaping_pointers(reader.body, node)
    ]


def _share_events(reader: _Reader, loop: CountedLoop) -> list[_Event]:
    events = []
    for access in accesses_in(reader.body, loop.body):
        index = _index_by_round(reader, access.node, loop)
        plain = index is not None and depends_on(index, [_ROUND])
        place = (loop.header, index) if plain and index is not None and access.space != "unknown" else None
        events.append(_Event(access.array, "share", access.writes, place))
    events += [_Event(name, "share", False) for name in _atomic_targets(reader.body, loop.body)]
    head = [event for node in (loop.start, loop.limit) for event in _events(reader, node, "all")]
    return head + events


def _written_by_calls(body: KernelBody, node: Node) -> bool:
    """Whether an element's address goes anywhere but into an atomic operation."""
    atomics = _atomics(node)
    return any(
        access.kind == "address" and not any(contains(call, access.node) for call in atomics)
        for access in accesses_in(body, node)
    )


def _atomic_targets(body: KernelBody, node: Node) -> frozenset[str]:
    return frozenset(name for call in _atomics(node) for name in escaping_pointers(body, call))


def _index_by_round(reader: _Reader, node: Node, loop: CountedLoop) -> Polynomial | None:
    """The index of a one-dimensional access with the loop variable under its common name."""
    found = [one for one in accesses_in(reader.body, node, frozenset({loop.variable, reader.row})) if one.node == node]
    if len(found) != 1 or len(found[0].indices) != 1:
        return None
    index = found[0].index
    factor = coefficient(index, loop.variable)
    if factor is None:
        return None
    renamed = {loop.variable: atom(_ROUND)}
    return _renamed(index, renamed)


def _renamed(index: Polynomial, names: dict[str, Polynomial]) -> Polynomial:
    terms = []
    for monomial, factor in index.terms:
        terms.append((tuple(sorted(_ROUND if part in names else part for part in monomial)), factor))
    return Polynomial(tuple(sorted(terms)))


def _parallel_loop(reader: _Reader, loop: CountedLoop, before: tuple[Node, ...]) -> ParallelLoop | Refusal:
    body = reader.body
    trips = literal_trips(body, loop)
    if trips is not None and trips < SHORTEST_LOOP:
        return Refusal(f"the loop over `{loop.variable}` has only {trips} rounds")
    if next(walk_types(loop.body, "break_statement", "return_statement"), None) is not None:
        return Refusal(f"the loop over `{loop.variable}` may end early")
    for call in walk_types(loop.body, "call_expression"):
        name = called_name(call)
        if name is None or name.startswith(("__shfl", "__sync")) or name in ("printf", "assert"):
            return Refusal(f"the call of {name or 'something'} in the loop is not understood")
        if name.startswith("atomic") and (call.parent is None or call.parent.type != "expression_statement"):
            return Refusal("the loop uses what an atomic operation returns")
    if escaping_pointers(body, loop.body) - _atomic_targets(body, loop.body):
        return Refusal("a pointer is handed to another function")
    if _written_by_calls(body, loop.body) or names_given_to_writers(body.unit, loop.body):
        return Refusal("a macro or a function may write what looks like a value")
    refusal = _rounds_are_independent(reader, loop)
    if refusal is not None:
        return refusal
    declared = {v.name for one in walk_types(loop.body, "declaration") for v in declared_variables(one)}
    reductions = []
    for name in sorted(assigned_names(loop.body) - declared):
        if _is_private(body, name, loop):
            continue
        found = reduction_of(body, name, loop.body)
        if isinstance(found, Refusal):
            return found
        reductions.append(found)
    stores = any(access.writes for access in accesses_in(body, loop.body)) or bool(_atomics(loop.body))
    if not reductions and not stores:
        return Refusal(f"the loop over `{loop.variable}` computes nothing that can be combined")
    fresh = frozenset(one.name for one in reductions if one.kind != "sum" or _starts_at_zero(body, one.name, before))
    return ParallelLoop(loop, tuple(reductions), fresh)


def _rounds_are_independent(reader: _Reader, loop: CountedLoop) -> Refusal | None:
    """Whether no round reads or writes what another one writes."""
    accesses = accesses_in(reader.body, loop.body, frozenset({loop.variable, reader.row}))
    written = {access.array for access in accesses if access.writes}
    for array in written:
        own = [access for access in accesses if access.array == array]
        if any(len(access.indices) != 1 or access.space != "parameter" for access in own):
            return Refusal(f"the loop stores to `{array}` in a way that is not understood")
        if any(access.index != own[0].index for access in own):
            return Refusal(f"rounds of the loop share elements of `{array}`")
        factor = coefficient(own[0].index, loop.variable)
        if factor is None or not factor.terms or factor.names & assigned_names(loop.body):
            return Refusal(f"rounds of the loop share elements of `{array}`")
        inner = {v.name for one in walk_types(loop.body, "declaration") for v in declared_variables(one)}
        if own[0].index.names & (inner | assigned_names(loop.body)):
            return Refusal(f"the loop stores to elements of `{array}` that depend on its inner variables")
    return None


def _is_private(body: KernelBody, name: str, loop: CountedLoop) -> bool:
    """Whether an outer variable is only a scratch value: each round sets it before it reads it."""
    uses = [node for node in walk_types(body.body, "identifier") if text_of(node) == name]
    inside = [node for node in uses if contains(loop.body, node)]
    outside = [node for node in uses if not contains(loop.body, node) and not _is_declaration_without_value(node)]
    if not inside or outside:
        return False
    first = inside[0]
    statement = first.parent
    made = None if statement is None else assignment_of(statement)
    if made is None or made.operator != "=" or made.left != first or (made.right and name in names_in(made.right)):
        return False
    current = statement
    while current is not None and current.id != loop.body.id:
        if current.type in ("if_statement", "conditional_expression", "while_statement", "switch_statement"):
            return False
        current = current.parent
    return True


def _is_declaration_without_value(node: Node) -> bool:
    parent = node.parent
    return parent is not None and parent.type == "declaration"


def _starts_at_zero(body: KernelBody, name: str, before: tuple[Node, ...]) -> bool:
    """Whether the scalar holds a literal zero when the loop begins: the last statement that sets it says so."""
    for statement in reversed(before):
        if name not in names_in(statement):
            continue
        value: Node | None = None
        if statement.type == "declaration":
            value = next((v.value for v in declared_variables(statement) if v.name == name), None)
        else:
            made = assignment_of(statement)
            if made is not None and made.operator == "=" and text_of(made.left) == name:
                value = made.right
            elif name not in assigned_names(statement):
                continue
        if value is None:
            return False
        text = text_of(value).rstrip("fFlLuU").strip()
        try:
            return float(text) == 0.0
        except ValueError:
            return False
    return False


def _check_loop_variables(reader: _Reader) -> Refusal | None:
    """A loop variable declared outside its loop holds another value afterwards: nobody may look at it."""
    body = reader.body
    parallel = {one.loop.node.id: one.loop for one in reader.loops}
    for loop in parallel.values():
        if loop.declares:
            continue
        homes = [
            other
            for other in (counted_loop(node) for node in loops_in(body.body))
            if other is not None and other.variable == loop.variable
        ]
        for use in walk_types(body.body, "identifier"):
            if text_of(use) != loop.variable or _is_declaration_without_value(use):
                continue
            if not any(contains(home.node, use) for home in homes):
                return Refusal(f"`{loop.variable}` is used outside its loop")
    return None
