"""Keeps an array element that a loop updates in a register, and stores it once behind the loop."""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.aliasing import no_alias
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, barriers_in, read_kernel
from optiml_core.rewrites.layout import code_of, edit, indent_at, unused_name
from optiml_core.rewrites.loops import loops_in
from optiml_core.rewrites.memory import Access, accesses_in, escaping_pointers
from optiml_core.rewrites.polynomials import Polynomial
from optiml_core.rewrites.syntax import (
    assigned_names,
    assignment_of,
    assignments_in,
    contains,
    declared_variables,
    names_in,
    statements_of,
    walk_types,
)
from optiml_core.rewrites.type_names import bare_type


@frozen
class _Candidate:
    """One element that a loop updates.

    ``region``: neighbouring statements, the loop among them, in which the element alone of its array
    is touched. ``uses``: its accesses there. ``others``: the other arrays touched there.
    """

    loop: Node
    array: str
    region: tuple[Node, ...]
    uses: tuple[Access, ...]
    others: frozenset[str]


def _candidates(body: KernelBody) -> list[_Candidate] | Refusal:
    found: list[_Candidate] = []
    reason = "no loop updates an element whose index it does not change"
    for loop in loops_in(body.body):
        if loop.parent is None or loop.parent.type != "compound_statement":
            continue
        if any(contains(one.loop, loop) for one in found):
            continue
        for array in dict.fromkeys(a.array for a in accesses_in(body, loop) if a.writes and a.space == "parameter"):
            made = _candidate(body, loop, array)
            if isinstance(made, _Candidate):
                found.append(made)
            else:
                reason = made.reason
    return found or Refusal(reason)


def _candidate(body: KernelBody, loop: Node, array: str) -> _Candidate | Refusal:
    parameter = next(p for p in body.kernel.parameters if p.name == array)
    if "volatile" in parameter.type:
        return Refusal(f"`{array}` is volatile")
    accesses = accesses_in(body, loop)
    own = [access for access in accesses if access.array == array]
    if any(access.kind == "address" or len(access.indices) != 1 for access in own) or any(
        access.space == "unknown" for access in accesses
    ):
        return Refusal(f"not every access to `{array}` in the loop is understood")
    index = own[0].index
    if any(access.index != index for access in own):
        return Refusal(f"the loop touches more than one element of `{array}`")
    changing = assigned_names(loop) | _declared_in(loop)
    if index.names & changing or any(a.array in index.names for a in accesses):
        return Refusal(f"the loop changes the index of `{array}`")
    if "[" in "".join(index.atoms) or "(" in "".join(index.atoms):
        return Refusal(f"the index of `{array}` is not a plain expression")
    if not any(access.kind == "update" or access.kind == "load" for access in own):
        return Refusal(f"the loop does not read `{array}` back")
    if barriers_in(loop) or array in escaping_pointers(body, loop):
        return Refusal(f"other threads may look at `{array}` while the loop runs")
    region = _region(body, loop, array, index)
    uses = tuple(a for one in region for a in accesses_in(body, one) if a.array == array)
    others = frozenset(a.array for one in region for a in accesses_in(body, one)) - {array}
    return _Candidate(loop, array, region, uses, others)


def _declared_in(node: Node) -> frozenset[str]:
    return frozenset(v.name for one in walk_types(node, "declaration") for v in declared_variables(one))


def _region(body: KernelBody, loop: Node, array: str, index: Polynomial) -> tuple[Node, ...]:
    """The loop and the statements around it that touch the same element, or only scalars between such ones."""
    assert loop.parent is not None
    siblings = statements_of(loop.parent)
    position = next(i for i, one in enumerate(siblings) if one.id == loop.id)

    def belongs(statement: Node) -> bool | None:
        """True: touches the element; None: touches no memory; False: must stay outside."""
        if statement.type not in ("expression_statement", "declaration", "if_statement", "for_statement"):
            return False
        own = [a for a in accesses_in(body, statement) if a.array == array]
        if any(a.index != index or a.kind == "address" for a in own) or any(
            a.space not in ("parameter", "local") for a in accesses_in(body, statement)
        ):
            return False
        if escaping_pointers(body, statement) or barriers_in(statement):
            return False
        if index.names & (assigned_names(statement) | _declared_in(statement)):
            return False
        return True if own else None if not accesses_in(body, statement) else False

    first = last = position
    for at in range(position - 1, -1, -1):
        verdict = belongs(siblings[at])
        if verdict is False:
            break
        if verdict:
            first = at
            if _plain_store(body, siblings[at], array):
                break
    for at in range(position + 1, len(siblings)):
        verdict = belongs(siblings[at])
        if verdict is False:
            break
        if verdict:
            last = at
    return tuple(siblings[first : last + 1])


def _plain_store(body: KernelBody, statement: Node, array: str) -> bool:
    """``a[i] = e;`` where ``e`` does not read the array."""
    made = assignment_of(statement) if statement.type == "expression_statement" else None
    if made is None or made.operator != "=" or made.right is None:
        return False
    left = accesses_in(body, made.left)
    return bool(left) and left[0].array == array and all(a.array != array for a in accesses_in(body, made.right))


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = _candidates(body)
    if isinstance(found, Refusal):
        return found
    usable = []
    refusal = Refusal("no element can be kept in a register")
    for number, one in enumerate(found):
        facts = no_alias(context, one.array, one.others)
        if isinstance(facts, Refusal):
            refusal = facts
        else:
            usable.append(Option({"array": one.array, "number": number}, f"`{one.array}` in a register"))
    return tuple(usable) or refusal


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = _candidates(body)
    if isinstance(found, Refusal):
        return found
    number = int(option.parameters["number"])
    if number >= len(found):
        return Refusal("there is no such element")
    one = found[number]
    facts = no_alias(context, one.array, one.others)
    if isinstance(facts, Refusal):
        return facts
    edits = _edits(context, body, one)
    rationale = f"`{one.array}` is updated in a register and stored once, not in every round of the loop."
    notes = (facts.note,) if facts.note else ()
    return finish(context, body, edits, rationale, not_checked=notes)


def _edits(context: RewriteContext, body: KernelBody, one: _Candidate) -> list[Edit]:
    unit = context.unit
    parameter = next(p for p in body.kernel.parameters if p.name == one.array)
    type_ = bare_type(parameter.type)
    adds = all(
        made.operator in ("+=", "-=")
        for made in assignments_in(one.loop)
        if any(access.node == made.left for access in one.uses)
    )
    name = unused_name("sum" if adds else f"{one.array}_value", names_in(body.body) | body.parameter_names)
    target = code_of(unit, one.uses[0].node)
    first, last = one.region[0], one.region[-1]
    edits = []
    uses = list(one.uses)
    indent = indent_at(unit, first.start_byte)
    if _plain_store(body, first, one.array):
        made = assignment_of(first)
        assert made is not None
        edits.append(edit(unit, made.left.start_byte, made.left.end_byte, f"{type_} {name}"))
        uses = [access for access in uses if not contains(made.left, access.node)]
    else:
        edits.append(edit(unit, first.start_byte, first.start_byte, f"{type_} {name} = {target};\n{indent}"))
    edits += [edit(unit, access.node.start_byte, access.node.end_byte, name) for access in uses]
    edits.append(edit(unit, last.end_byte, last.end_byte, f"\n{indent_at(unit, last.start_byte)}{target} = {name};"))
    return edits


REWRITE = Rewrite("register-accumulator", ("redundant-global-traffic",), options, apply)
