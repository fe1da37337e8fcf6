"""Several elements a thread, with their loops fused: what is the same for all elements is loaded and computed once.

Unroll and jam (D. Callahan, S. Carr, K. Kennedy, "Improving register allocation for subscripted variables", 1990): a
thread that tests one point against every edge loads and prepares each edge for one point. With eight points it
does so once for eight, and the points' own work has no dependences between them.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, frozen
from attrs import field as attribute
from tree_sitter import Node

from optiml_core.rewrites.aliasing import same_or_apart
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.element_dependence import ElementNames, element_names, head_depends, loop_body, used_outside
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, names_given_to_writers
from optiml_core.rewrites.launch_text import is_primary, plan
from optiml_core.rewrites.layout import (
    code_of,
    comments_before,
    edit,
    indent_at,
    layout_of,
    lines_of_code,
    split_lines,
    substituted,
    unused_name,
)
from optiml_core.rewrites.memory import accesses_in, escaping_pointers
from optiml_core.rewrites.one_element import OneElement, read_one_element
from optiml_core.rewrites.syntax import (
    DeclaredVariable,
    called_name,
    contains,
    declared_variables,
    names_in,
    statements_of,
    text_of,
    walk_types,
)

FACTORS = (4, 8, 2)
_LOOPS = ("for_statement", "while_statement")


@frozen
class _Found:
    one: OneElement
    names: ElementNames
    stored: frozenset[str]
    arrays: frozenset[str]  # element variables that outlive the group of statements which sets them
    notes: tuple[str, ...]


def _recognise(context: RewriteContext) -> _Found | Refusal:
    one = read_one_element(context)
    if isinstance(one, Refusal):
        return one
    body, work = one.body, one.work.work
    for node in work:
        refusal = _understood(body, node)
        if refusal is not None:
            return refusal
    accesses = [access for node in work for access in accesses_in(body, node)]
    if any(access.space == "unknown" or access.kind == "address" for access in accesses):
        return Refusal("not every access is known to go to one array")
    stored = frozenset(access.array for access in accesses if access.writes and access.space == "parameter")
    names = element_names(work, one.index.name, stored)
    loops = [loop for loop in _outer_loops(work) if not head_depends(loop, names)]
    if not any(_shares(body, loop, names) for loop in loops):
        return Refusal("no loop loads or computes anything that is the same for all elements")
    refusal = _stores_stand_alone(body, work, loops)
    if refusal is not None:
        return refusal
    arrays = _arrays(body, one, names)
    if isinstance(arrays, Refusal):
        return arrays
    notes: list[str] = []
    for array in sorted(stored):
        proof = same_or_apart(context, array, {a.array for a in accesses if a.space == "parameter"} - {array}, ())
        if isinstance(proof, Refusal):
            return proof
        notes += proof
    return _Found(one, names, stored, arrays, tuple(notes))


def _understood(body: KernelBody, node: Node) -> Refusal | None:
    leaving = ("break_statement", "return_statement", "continue_statement", "switch_statement", "do_statement")
    if next(walk_types(node, *leaving), None) is not None:
        return Refusal("the work may leave a loop or end early")
    for call in walk_types(node, "call_expression"):
        name = called_name(call)
        if name is None or name.startswith(("atomic", "__shfl", "__sync", "clock")) or name in ("printf", "assert"):
            return Refusal(f"the call of {name or 'something'} is not understood")
    taken = (text_of(one) for one in walk_types(node, "pointer_expression"))
    if any(text.startswith("&") and text[1:].strip().isidentifier() for text in taken):
        return Refusal("the address of a variable is taken")
    if escaping_pointers(body, node) or names_given_to_writers(body.unit, node):
        return Refusal("a pointer or a reference is handed to another function")
    return None


def _outer_loops(work: tuple[Node, ...]) -> list[Node]:
    return [node for node in work if node.type in _LOOPS]


def _shares(body: KernelBody, loop: Node, names: ElementNames) -> bool:
    """Whether some statement of the loop loads or calls, or divides, for all elements alike."""
    for statement in _statements(loop):
        if statement.type in _LOOPS and not head_depends(statement, names):
            if _shares(body, statement, names):
                return True
        elif (not names.depends(statement) and statement.type == "declaration" and accesses_in(body, statement)) or any(
            access.space == "parameter" and not names.depends(access.node) for access in accesses_in(body, statement)
        ):
            return True
    return False


def _statements(loop: Node) -> tuple[Node, ...]:
    return statements_of(loop_body(loop))


def _stores_stand_alone(body: KernelBody, work: tuple[Node, ...], loops: list[Node]) -> Refusal | None:
    """Stores must follow the loops: nothing that is loaded once for all elements may be stored to in between."""
    last = max((loop.end_byte for loop in loops), default=0)
    for node in work:
        for access in accesses_in(body, node):
            if access.writes and access.space == "parameter" and node.start_byte < last:
                return Refusal("an element is stored before the loops are over")
            if access.writes and access.space != "parameter":
                return Refusal("the work has arrays of its own")
    return None


def _arrays(body: KernelBody, one: OneElement, names: ElementNames) -> frozenset[str] | Refusal:
    """Element variables that need a place for each element; a Refusal where one cannot have it."""
    work = one.work.work
    found = set()
    for declaration in (one for node in work for one in walk_types(node, "declaration")):
        together = {variable.name for variable in declared_variables(declaration)}
        if together & names.own and together - names.own:
            own = sorted(together & names.own)[0]
            return Refusal(f"`{own}` is declared together with a variable that all elements share")
    for variable in _declared(work):
        if variable.name not in names.own or variable.name == one.index.name:
            continue
        if variable.is_array or variable.is_pointer or "static" in variable.type or "auto" in variable.type.split():
            return Refusal(f"`{variable.name}` cannot be held for several elements")
        if sum(other.name == variable.name for other in _declared(work)) > 1:
            return Refusal(f"`{variable.name}` is declared more than once")
        group = next(
            (g for g in _all_groups(body, work, names) if any(contains(s, variable.declarator) for s in g)), ()
        )
        if used_outside(variable.name, group, work):
            found.add(variable.name)
    before = {v.name for node in one.work.before for v in declared_variables(node)}
    outside = {n for n in names.own if n in before and n != one.index.name}
    if outside:
        return Refusal(f"`{sorted(outside)[0]}` is declared in front of the guard")
    if names.own & {p.name for p in body.kernel.parameters if not p.is_pointer}:
        return Refusal("the work changes a parameter")
    return frozenset(found)


def _declared(work: tuple[Node, ...]) -> Iterator[DeclaredVariable]:
    for node in work:
        for declaration in walk_types(node, "declaration"):
            yield from declared_variables(declaration)


def _segments(
    body: KernelBody, statements: tuple[Node, ...], names: ElementNames
) -> list[tuple[str, tuple[Node, ...]]]:
    """Statements in order: ``loop`` to go into, ``once`` for all elements, ``each`` together, ``store``."""
    found: list[tuple[str, tuple[Node, ...]]] = []
    for statement in statements:
        if statement.type in _LOOPS and not head_depends(statement, names):
            kind = "loop" if names.depends(statement) else "once"
        elif not names.depends(statement):
            kind = "once"
        else:
            writes = any(a.writes and a.space == "parameter" for a in accesses_in(body, statement))
            kind = "store" if writes else "each"
        if found and found[-1][0] == kind and kind in ("each", "store"):
            found[-1] = (kind, (*found[-1][1], statement))
        else:
            found.append((kind, (statement,)))
    return found


def _all_groups(body: KernelBody, statements: tuple[Node, ...], names: ElementNames) -> Iterator[tuple[Node, ...]]:
    for kind, group in _segments(body, statements, names):
        if kind == "loop":
            yield from _all_groups(body, _statements(group[0]), names)
        else:
            yield group


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    made = apply(context, Option({"factor": FACTORS[0]}))
    if isinstance(made, Refusal):
        return made
    return tuple(Option({"factor": factor}, f"{factor} elements a thread, their loops as one") for factor in FACTORS)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    factor = int(option.parameters["factor"])
    one = found.one
    launch = plan((f"ceil_div(grid.x, {factor})", "grid.y", "grid.z"))
    start, end = one.index.declaration.start_byte, statements_of(one.body.body)[-1].end_byte
    indent = indent_at(context.unit, start)
    text = lines_of_code(_Writer(context, found, factor).lines(), layout_of(context.unit, one.body.body), indent)
    rationale = (
        f"A thread works on {factor} elements at once: what their loops share is loaded and computed once for all."
    )
    return finish(
        context, one.body, [edit(context.unit, start, end, text[len(indent) :])], rationale,
        launch=launch, not_checked=found.notes,
    )  # fmt: skip


@define
class _Writer:
    """Writes the new work. ``lane`` counts a thread's elements; element variables that outlive a group are arrays."""

    context: RewriteContext
    found: _Found
    factor: int
    first: str = attribute(init=False)
    stride: str = attribute(init=False)
    lane: str = attribute(init=False)
    kind: str = attribute(init=False)

    def __attrs_post_init__(self) -> None:
        body, index = self.found.one.body, self.found.one.index
        taken = names_in(body.body) | body.parameter_names | frozenset(body.macros)
        self.first = unused_name(f"first_{index.name}" if len(index.name) < 8 else "first", taken)
        self.stride = unused_name("stride", taken)
        self.lane = next((name for name in ("k", "e", "element") if name not in taken), unused_name("element", taken))
        self.kind = " ".join(word for word in index.type.split() if word != "const")

    def lines(self) -> list[str]:
        one, unit = self.found.one, self.context.unit
        limit = one.work.bounds[0].limit
        later = [node for node in one.work.before if node.start_byte > one.index.declaration.start_byte]
        lines = [
            f"const {self.kind} {self.stride} = blockDim.x;",
            f"const {self.kind} {self.first} = blockIdx.x * blockDim.x * {self.factor} + threadIdx.x;",
            *(code_of(unit, node) for node in later),
            f"if ({self.first} < {limit}) {{",
        ]
        declared = [v for v in _declared(one.work.work) if v.name in self.found.arrays]
        lines += [f"\t{_bare(v.type)} {v.name}[{self.factor}];" for v in declared]
        lines += [f"\t{line}" for line in self._statements(one.work.work)]
        return [*lines, "}"]

    def _statements(self, statements: tuple[Node, ...]) -> list[str]:
        lines: list[str] = []
        for kind, group in _segments(self.found.one.body, statements, self.found.names):
            comments = [text for one in group for text in comments_before(self.context.unit, one)]
            if kind == "once":
                lines += [*comments, *(line for one in group for line in self._copied(one))]
            elif kind == "loop":
                head = self.context.unit.source.data[group[0].start_byte : loop_body(group[0]).start_byte]
                lines += [*comments, f"{head.decode('utf-8', 'surrogateescape').strip()} {{"]
                lines += [f"\t{line}" for line in self._statements(_statements(group[0]))]
                lines.append("}")
            else:
                lines += [*comments, *self._for_each(kind, group)]
        return lines

    def _copied(self, node: Node) -> list[str]:
        return self._split(node, code_of(self.context.unit, node))

    def _split(self, node: Node, text: str) -> list[str]:
        unit = self.context.unit
        return split_lines(text, indent_at(unit, node.start_byte), layout_of(unit, self.found.one.body.body).step)

    def _for_each(self, kind: str, group: tuple[Node, ...]) -> list[str]:
        one = self.found.one
        place, limit = f"{self.first} + {self.lane} * {self.stride}", one.work.bounds[0].limit
        last = f"{limit if is_primary(limit) else f'({limit})'} - 1"
        lines: list[str] = []
        uses_index = any(text_of(n) == one.index.name for s in group for n in walk_types(s, "identifier"))
        inside = [line for statement in group for line in self._of_element(statement)]
        if kind == "store":
            lines.append(f"const {self.kind} {one.index.name} = {place};")
            lines += [f"if ({one.index.name} < {limit}) {{", *(f"\t{line}" for line in inside), "}"]
        else:
            # Elements beyond the last repeat it; only their stores are left out.
            value = f"{place} < {limit} ? {place} : {last}"
            lines += [f"const {self.kind} {one.index.name} = {value};"] if uses_index else []
            lines += inside
        head = f"for (int {self.lane} = 0; {self.lane} < {self.factor}; {self.lane}++) {{"
        return ["#pragma unroll", head, *(f"\t{line}" for line in lines), "}"]

    def _of_element(self, statement: Node) -> list[str]:
        declared = declared_variables(statement)
        if any(v.name in self.found.arrays for v in declared):
            return [line for v in declared for line in self._declared(v)]
        replaced = [
            (node, f"{text_of(node)}[{self.lane}]")
            for node in walk_types(statement, "identifier")
            if text_of(node) in self.found.arrays
        ]
        return self._split(statement, substituted(self.context.unit, statement, replaced))

    def _declared(self, variable: DeclaredVariable) -> list[str]:
        if variable.value is None:
            return [] if variable.name in self.found.arrays else [f"{variable.type} {variable.name};"]
        replaced = [
            (node, f"{text_of(node)}[{self.lane}]")
            for node in walk_types(variable.value, "identifier")
            if text_of(node) in self.found.arrays
        ]
        value = substituted(self.context.unit, variable.value, replaced)
        if variable.name in self.found.arrays:
            return [f"{variable.name}[{self.lane}] = {value};"]
        return [f"{variable.type} {variable.name} = {value};"]


def _bare(kind: str) -> str:
    return " ".join(word for word in kind.split() if word not in ("const", "register"))


REWRITE = Rewrite(
    "unroll-and-jam", ("redundant-global-traffic", "memory-latency", "latency-bound-launch"), options, apply
)
