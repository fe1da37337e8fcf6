"""Loads of several rounds of a loop first, then the work of each: more loads are under way at the same time.

A compiler does this by itself where no store or branch of a round stands in the way: sixteen rounds where it knows
the step, four where the step is a value like ``blockDim.x`` (none with ``#pragma unroll``, after which it tests the end
in every round).
"""

from __future__ import annotations

from attrs import define, frozen
from attrs import field as attribute
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.aliasing import same_or_apart
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, names_given_to_writers, read_kernel
from optiml_core.rewrites.launch_text import is_primary
from optiml_core.rewrites.layout import (
    code_of,
    edit,
    indent_at,
    layout_of,
    lines_of_code,
    reindented,
    substituted,
    unused_name,
    with_comments,
)
from optiml_core.rewrites.loops import CountedLoop, counted_loop, innermost_loops, literal_trips
from optiml_core.rewrites.memory import LOAD_CALLS, Access, accesses_in, escaping_pointers
from optiml_core.rewrites.polynomials import coefficient
from optiml_core.rewrites.syntax import (
    ancestors,
    assigned_names,
    assignment_of,
    called_name,
    contains,
    declared_variables,
    field,
    names_in,
    operator_of,
    statements_of,
    text_of,
    walk_types,
)
from optiml_core.rewrites.type_names import bare_type, resolved_type
from optiml_core.source import element_type_of

ROUNDS = (4, 8, 2)
MOST_BYTES = 128  # of registers that wait for loads, per thread
_WORDS = {4: "four", 8: "eight", 2: "two"}


@frozen
class _Load:
    """One element that every round loads. ``nodes``: the expressions that give its value, the first one to be moved."""

    array: str
    type: str
    size: int
    nodes: tuple[Node, ...]
    access: Access


@frozen
class _Ahead:
    """A loop and its loads. ``updates``: statements ``y[c] += v`` whose old element is one of the loads."""

    loop: CountedLoop
    loads: tuple[_Load, ...]
    updates: tuple[Node, ...]
    notes: tuple[str, ...]

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.loads)


@frozen
class _Found:
    body: KernelBody
    loops: tuple[_Ahead, ...]


def _recognise(context: RewriteContext) -> _Found | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = []
    reason = Refusal("the kernel has no loop")
    for node in innermost_loops(body.body):
        loop = counted_loop(node)
        made = Refusal("no inner loop is a counted one") if loop is None else _read_loop(context, body, loop)
        if isinstance(made, _Ahead):
            found.append(made)
        else:
            reason = made
    return _Found(body, tuple(found)) if found else reason


def _read_loop(context: RewriteContext, body: KernelBody, loop: CountedLoop) -> _Ahead | Refusal:
    if loop.node.parent is None or loop.node.parent.type != "compound_statement":
        return Refusal("the loop stands without braces")
    if not loop.declares or loop.type is None:
        return Refusal(f"`{loop.variable}` is not declared in its loop")
    if next(walk_types(loop.body, "break_statement", "return_statement", "continue_statement"), None) is not None:
        return Refusal("a round of the loop may end early")
    if barriers_in(loop.body) or any(
        "__shfl" in (called_name(c) or "") for c in walk_types(loop.body, "call_expression")
    ):
        return Refusal("the threads work together in the loop")
    trips = literal_trips(body, loop)
    if trips is not None and trips <= 2 * max(ROUNDS):
        return Refusal(f"the loop has only {trips} rounds")
    if b"unroll" in context.unit.source.line_bytes(max(1, context.unit.source.line_of(loop.node.start_byte) - 1)):
        return Refusal("the loop is marked for unrolling already")
    atomics = {
        name
        for call in walk_types(loop.body, "call_expression")
        if (called_name(call) or "").startswith("atomic")
        for name in escaping_pointers(body, call)
    }
    if escaping_pointers(body, loop.body) - atomics or names_given_to_writers(body.unit, loop.body):
        return Refusal("a pointer is handed to another function")
    accesses = accesses_in(body, loop.body, frozenset({loop.variable}))
    if any(one.space == "unknown" or (one.kind == "address" and one.array not in atomics) for one in accesses):
        return Refusal("not every access is known to go to one array")
    loads, updates = _loads(body, loop, accesses, atomics)
    if not loads:
        return Refusal("the loop loads nothing whose place is known ahead")
    stored = {one.array for one in accesses if one.writes and one.space == "parameter"} | atomics
    if _counts_by_number(body, loop) and not stored and not _branches(loop):
        return Refusal("the compiler loads ahead by itself in a loop whose rounds it can count")
    notes: list[str] = []
    for array in sorted(stored):
        places = [one.indices for one in accesses if one.array == array and one.writes]
        same = {one.array for one in loads if places and all(one.access.indices == place for place in places)}
        proof = same_or_apart(context, array, same, {one.array for one in loads} - same)
        if isinstance(proof, Refusal):
            return proof
        notes += proof
    return _Ahead(loop, tuple(loads), tuple(updates), tuple(dict.fromkeys(notes)))


def _counts_by_number(body: KernelBody, loop: CountedLoop) -> bool:
    """Whether the step is a number, so that a compiler can count the rounds in front of the loop."""
    return loop.step is None or body.polynomial(loop.step).constant is not None


def _branches(loop: CountedLoop) -> bool:
    """Whether a round has a branch that a compiler cannot make a selection of: it moves no load across one."""
    return any(
        len(statements_of(field(one, "consequence"))) > 1 or next(walk_types(one, "call_expression"), None) is not None
        for one in walk_types(loop.body, "if_statement")
    )


def _loads(
    body: KernelBody, loop: CountedLoop, accesses: tuple[Access, ...], atomics: set[str]
) -> tuple[list[_Load], list[Node]]:
    """The elements whose loads can be moved ahead of the round, and the updates that become stores."""
    inner = {v.name for one in walk_types(loop.body, "declaration") for v in declared_variables(one)}
    changing = inner | assigned_names(loop.body)
    loads: list[_Load] = []
    updates: list[Node] = []
    groups: dict[tuple[str, object], list[Access]] = {}
    for access in accesses:
        if access.space == "parameter" and access.array not in atomics:
            groups.setdefault((access.array, access.indices), []).append(access)
    for (array, _), own in groups.items():
        first = own[0]
        factor = coefficient(first.index, loop.variable) if len(first.indices) == 1 else None
        others = [one for one in accesses if one.array == array and one not in own]
        if factor is None or not factor.terms or any(names_in(one.node) & changing for one in own):
            continue
        writes = [one for one in own if one.writes]
        if others and (writes or any(one.writes for one in others)):
            continue
        parameter = next(p for p in body.kernel.parameters if p.name == array)
        size = _size(body, parameter.type)
        if "volatile" in parameter.type or size is None:
            continue
        reads = [one for one in own if one.kind == "load"]
        update = _only_update(loop, writes)
        if update is not None and not any(one.node.start_byte > update.end_byte for one in reads):
            nodes = [value_node(one.node) for one in reads]
            loads.append(_Load(array, bare_type(parameter.type), size, (*nodes, writes[0].node), first))
            updates.append(update)
        elif reads and not is_conditional(reads[0].node, loop.node):
            last = min((one.node.start_byte for one in writes), default=loop.body.end_byte)
            stores = [one for one in ancestors(writes[0].node) if one.type == "expression_statement"] if writes else []
            end = stores[0].end_byte if stores else last
            if any(one.node.start_byte > end for one in reads):
                continue
            nodes = [value_node(one.node) for one in reads]
            loads.append(_Load(array, bare_type(parameter.type), size, tuple(nodes), reads[0]))
    return loads, updates


def _size(body: KernelBody, type_: str) -> int | None:
    known = element_type_of(resolved_type(body.unit, bare_type(type_)))
    return known.size if known is not None and known.size <= 16 else None


def _only_update(loop: CountedLoop, writes: list[Access]) -> Node | None:
    """The statement ``y[c] += v;`` of every round, if that is how the element is written."""
    if len(writes) != 1 or writes[0].kind != "update":
        return None
    statement = next((one for one in statements_of(loop.body) if contains(one, writes[0].node)), None)
    made = None if statement is None else assignment_of(statement)
    plain = made is not None and made.left.id == writes[0].node.id and made.right is not None
    return statement if plain and statement is not None and statement.type == "expression_statement" else None


def value_node(node: Node) -> Node:
    """The load itself, or the call ``__ldg(&x[c])`` around it."""
    parent = node.parent
    if parent is not None and parent.type == "pointer_expression" and text_of(parent).startswith("&"):
        call = next((one for one in ancestors(parent) if one.type == "call_expression"), None)
        if call is not None and called_name(call) in LOAD_CALLS:
            return call
    return node


def is_conditional(node: Node, until: Node) -> bool:
    """Whether a round may go without evaluating the node."""
    inner = node
    for around in ancestors(node, until):
        if around.type in ("for_statement", "while_statement", "do_statement", "switch_statement"):
            return True
        if around.type in ("if_statement", "conditional_expression") and not contains(
            field(around, "condition"), inner
        ):
            return True
        logical = around.type == "binary_expression" and operator_of(around) in ("&&", "||", "and", "or")
        if logical and not contains(field(around, "left"), inner):
            return True
        inner = around
    return False


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    loops = "the loop" if len(found.loops) == 1 else f"{len(found.loops)} loops"
    fitting = [rounds for rounds in ROUNDS if all(one.bytes * rounds <= MOST_BYTES for one in found.loops)]
    if not fitting:
        return Refusal("the loop loads too much to hold several rounds of it in registers")
    return tuple(Option({"rounds": n}, f"loads of {_WORDS[n]} rounds at once in {loops}") for n in fitting)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    rounds = int(option.parameters["rounds"])
    rationale = (
        f"Loads of {_WORDS.get(rounds, rounds)} rounds are made before the first of them is needed: "
        "a thread waits once where it waited several times."
    )
    notes = tuple(dict.fromkeys(note for one in found.loops for note in one.notes))
    strides = _Strides(context, found.body)
    edits = [_edit(context, found.body, one, rounds, strides) for one in found.loops]
    return finish(context, found.body, edits, rationale, not_checked=notes)


@define
class _Strides:
    """Names for the steps of loops, ``const int stride = blockDim.x;``, each declared once in a block."""

    context: RewriteContext
    body: KernelBody
    known: list[tuple[Node, str, str, str]] = attribute(factory=list)  # block, type, step, name

    def of(self, loop: CountedLoop, kind: str, step: str) -> tuple[str, bool]:
        """The name that stands for a loop's step, and whether it is to be declared in front of the loop."""
        block = loop.node.parent
        assert block is not None
        assert loop.step is not None
        fixed = not names_in(loop.step) & self.body.assigned
        for other, other_kind, other_step, name in self.known:
            if fixed and (other_kind, other_step) == (kind, step) and contains(other, block):
                return name, False
        taken = names_in(self.body.body) | self.body.parameter_names | frozenset(self.body.macros)
        name = unused_name("stride", [*taken, *(one[3] for one in self.known)])
        self.known.append((block, kind, step, name))
        return name, True


def _edit(context: RewriteContext, body: KernelBody, one: _Ahead, rounds: int, strides: _Strides) -> Edit:
    unit, loop = context.unit, one.loop
    taken = names_in(body.body) | body.parameter_names | frozenset(body.macros)
    first = unused_name(f"first_{loop.variable}" if len(loop.variable) < 8 else "first", taken)
    lane = next((name for name in ("k", "r", "ahead") if name not in taken), unused_name("k", taken))
    kind = " ".join(word for word in (loop.type or "int").split() if word != "const")
    lines: list[str] = []
    step = "1" if loop.step is None else code_of(unit, loop.step)
    number = None if loop.step is None else body.polynomial(loop.step).constant
    if loop.step is not None and number is None and not text_of(loop.step).isidentifier():
        name, is_new = strides.of(loop, kind, step)
        lines += [f"const {kind} {name} = {step};"] if is_new else []
        step = name
    elif number is not None:
        step = str(number)
    elif not is_primary(step):
        step = f"({step})"
    limit = code_of(unit, loop.limit)
    limit = limit if is_primary(limit) else f"({limit})"
    sign, more = ("<=", ">=") if loop.inclusive else ("<", ">")
    place = f"{first} + {lane}" if step == "1" else f"{first} + {lane} * {step}"
    start = code_of(unit, loop.start)
    many = _times(rounds, step)
    lines += [
        f"for ({kind} {first} = {start}; {first} {sign} {limit}; {first} += {many}) {{",
        f"\tif ({limit} - {first} {more} {_times(rounds - 1, step)}) {{",
    ]
    names: dict[int, str] = {}
    for load in one.loads:
        name = unused_name(f"{load.array}_ahead", [*taken, *names.values()])
        names[id(load)] = name
        lines.append(f"\t\t{load.type} {name}[{rounds}];")
    head = ["\t\t#pragma unroll", f"\t\tfor (int {lane} = 0; {lane} < {rounds}; {lane}++) {{"]
    lines += head
    lines += [f"\t\t\t{names[id(load)]}[{lane}] = {_moved(context, load, loop.variable, place)};" for load in one.loads]
    lines += ["\t\t}", *head]
    replaced = [(node, f"{names[id(load)]}[{lane}]") for load in one.loads for node in load.nodes]
    work = [_work(context, one, statement, replaced) for statement in statements_of(loop.body)]
    if _uses_variable(one, replaced):
        lines.append(f"\t\t\tconst {kind} {loop.variable} = {place};")
    indent = indent_at(unit, loop.node.start_byte)
    layout = layout_of(unit, body.body)
    deep = indent + 3 * layout.step
    inside = [indent_at(unit, statement.start_byte) for statement in statements_of(loop.body)]
    lines += [f"\t\t\t{reindented(text, old, deep)}" for text, old in zip(work, inside, strict=True)]
    lines += [
        "\t\t}",
        "\t} else {",
        f"\t\tfor ({kind} {loop.variable} = {first}; {loop.variable} {sign} {limit}; {_update(loop, step)}) {{",
    ]
    rest = with_comments(unit, statements_of(loop.body))
    old = inside[0] if inside else indent
    lines += [f"\t\t\t{reindented(text, old, deep)}" for text in rest]
    lines += ["\t\t}", "\t}", "}"]
    text = lines_of_code(lines, layout, indent)
    return edit(unit, loop.node.start_byte, loop.node.end_byte, text[len(indent) :])


def _times(count: int, step: str) -> str:
    if step.isdigit():
        return str(count * int(step))
    return step if count == 1 else f"{count} * {step}"


def _update(loop: CountedLoop, step: str) -> str:
    return f"{loop.variable}++" if step == "1" else f"{loop.variable} += {step}"


def _moved(context: RewriteContext, load: _Load, variable: str, place: str) -> str:
    """The load's own code at another round."""
    node = load.nodes[0]
    pairs = []
    for inner in walk_types(node, "identifier"):
        if text_of(inner) != variable:
            continue
        alone = inner.parent is not None and inner.parent.type in ("subscript_argument_list", "subscript_expression")
        pairs.append((inner, place if alone else f"({place})"))
    return substituted(context.unit, node, pairs)


def _work(context: RewriteContext, one: _Ahead, statement: Node, replaced: list[tuple[Node, str]]) -> str:
    inside = [pair for pair in replaced if contains(statement, pair[0])]
    if statement in one.updates:
        made = assignment_of(statement)
        assert made is not None
        assert made.right is not None
        own = next(text for node, text in inside if node.id == made.left.id)
        right = substituted(context.unit, made.right, [pair for pair in inside if contains(made.right, pair[0])])
        operand = right if is_primary(right) else f"({right})"
        return f"{code_of(context.unit, made.left)} = {own} {made.operator.removesuffix('=')} {operand};"
    return substituted(context.unit, statement, inside)


def _uses_variable(one: _Ahead, replaced: list[tuple[Node, str]]) -> bool:
    gone = [node for node, _ in replaced if not any(contains(s, node) and _is_target(s, node) for s in one.updates)]
    return any(
        text_of(node) == one.loop.variable and not any(contains(other, node) for other in gone)
        for node in walk_types(one.loop.body, "identifier")
    )


def _is_target(statement: Node, node: Node) -> bool:
    made = assignment_of(statement)
    return made is not None and made.left.id == node.id


REWRITE = Rewrite("load-ahead", ("memory-latency", "latency-bound-launch"), options, apply)
