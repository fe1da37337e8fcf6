"""The maximum of a row and the sum of its exponentials in one pass instead of two.

M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (arXiv:1805.02867): what was summed
so far is relative to the maximum so far, and is scaled when a larger element comes. Threads that share a row
scale their sums once more when they know the maximum of all.
"""

from __future__ import annotations

import re

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites import recompute_element
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, read_kernel
from optiml_core.rewrites.layout import code_of, edit, indent_at, layout_of, lines_of_code, substituted, unused_name
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.reductions import Reduction, reduction_of
from optiml_core.rewrites.row_passes import Passes, is_pure, locals_of, needed_declarations, neighbouring_passes
from optiml_core.rewrites.sequence import followed_by
from optiml_core.rewrites.syntax import (
    arguments_of,
    assigned_names,
    assignment_of,
    assignments_in,
    called_name,
    contains,
    declared_variables,
    field,
    names_in,
    operator_of,
    squeeze,
    statements_of,
    text_of,
    unwrap,
    walk_types,
)
from optiml_core.rewrites.type_names import resolved_type

# Exponentials by the type of what they are given: f(a + b) = f(a) * f(b) is all that is needed of them.
_EXPONENTIALS = {"expf": "float", "__expf": "float", "exp2f": "float", "exp": "", "exp2": ""}
_FLOATS = ("float", "double")


@frozen
class _Found:
    """``element``: what the maximum is taken of, in the first pass. ``exponential``: the function's name.

    ``largest``, ``sum``: the two scalars. ``combine``: ``m = block_max(m);`` between the passes, or None.
    ``start``: the declaration or assignment that sets the sum to zero, where it stands between the passes.
    """

    body: KernelBody
    passes: Passes
    largest: Reduction
    sum: Reduction
    element: Node
    helpers: tuple[Node, ...]
    exponential: str
    combine: Node | None
    start: Node | None


def _recognise(context: RewriteContext) -> _Found | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    reason = Refusal("no two loops run over the same elements")
    for passes in neighbouring_passes(body):
        found = _read_passes(body, passes)
        if isinstance(found, _Found):
            return found
        reason = found
    return reason


def _read_passes(body: KernelBody, passes: Passes) -> _Found | Refusal:
    first, second = passes.first, passes.second
    for loop in (first, second):
        if any(a.writes or a.kind == "address" or a.space == "shared" for a in accesses_in(body, loop.body)):
            return Refusal("a pass does more with memory than to read its row")
    largest, total = _only_reduction(body, passes, 0), _only_reduction(body, passes, 1)
    if isinstance(largest, Refusal):
        return largest
    if isinstance(total, Refusal):
        return total
    if largest.kind != "max" or total.kind != "sum" or {largest.type, total.type} - set(_FLOATS):
        return Refusal("the passes are not a maximum and a sum")
    element = _element(body, first.body, largest.name)
    helpers = None if element is None else _helpers(body, first.body, element)
    if element is None or helpers is None or not is_pure(body, element):
        return Refusal("what the maximum is taken of is not one expression")
    summand = _summand(body, second.body, total.name)
    if summand is None:
        return Refusal("the sum is not one of exponentials alone")
    name, argument, own_helpers = summand
    minuend = _difference(argument, largest.name)
    if minuend is None:
        return Refusal("the exponential is not one of the distance from the maximum")
    if _spelled(body, passes, helpers, element, 0) != _spelled(body, passes, own_helpers, minuend, 1):
        return Refusal("the exponential is not taken of what the maximum is taken of")
    if _EXPONENTIALS[name] and largest.type != "float":
        return Refusal("the maximum is wider than the exponential's argument")
    between = _between(body, passes, largest.name, total.name)
    if isinstance(between, Refusal):
        return between
    changed = assigned_names(first.body) | assigned_names(second.body)
    if (names_in(element).union(*(names_in(one) for one in helpers)) - locals_of(first)) & changed:
        return Refusal("the elements change while they are read")
    return _Found(body, passes, largest, total, element, tuple(helpers), name, *between)


def _only_reduction(body: KernelBody, passes: Passes, number: int) -> Reduction | Refusal:
    loop = (passes.first, passes.second)[number]
    gathered = sorted(assigned_names(loop.body) - locals_of(loop))
    if len(gathered) != 1:
        return Refusal("a pass does not gather one value")
    return reduction_of(body, gathered[0], loop.body)


def _element(body: KernelBody, loop_body: Node, name: str) -> Node | None:
    """``e`` of ``if (e > m) m = e;``, ``m = fmaxf(m, e);`` or ``m = e > m ? e : m;`` as the only such statement."""
    made = [one for one in assignments_in(loop_body) if text_of(one.left) == name]
    if len(made) != 1 or made[0].right is None or made[0].operator != "=":
        return None
    others = [one for one in statements_of(loop_body) if one.type != "declaration"]
    if len(others) != 1 or not contains(others[0], made[0].node):
        return None
    right = unwrap(made[0].right)
    if right.type == "call_expression" and name in names_in(right):
        own = [one for one in arguments_of(right) if text_of(unwrap(one)) != name]
        return unwrap(own[0]) if len(own) == 1 else None
    if right.type == "conditional_expression" and name in names_in(right):
        return unwrap(field(right, "consequence"))
    return right


def _helpers(body: KernelBody, loop_body: Node, value: Node) -> list[Node] | None:
    declared = {v.name for one in statements_of(loop_body) for v in declared_variables(one)}
    return needed_declarations(body, loop_body, names_in(value) & declared, value.start_byte)


def _summand(body: KernelBody, loop_body: Node, name: str) -> tuple[str, Node, list[Node]] | None:
    """The exponential that every round adds: its function, its argument, the declarations that the argument needs."""
    statements = [one for one in statements_of(loop_body) if one.type != "declaration"]
    made = assignment_of(statements[0]) if len(statements) == 1 else None
    if made is None or made.right is None or text_of(made.left) != name:
        return None
    value = unwrap(made.right)
    if made.operator == "=" and value.type == "binary_expression" and operator_of(value) == "+":
        sides = [unwrap(field(value, "left")), unwrap(field(value, "right"))]
        sides = [one for one in sides if text_of(one) != name]
        if len(sides) != 1:
            return None
        value = sides[0]
    elif made.operator != "+=":
        return None
    declared = {v.name: v for one in statements_of(loop_body) for v in declared_variables(one)}
    while value.type == "identifier" and text_of(value) in declared:
        inner = declared[text_of(value)]
        if inner.value is None or inner.is_array or resolved_type(body.unit, inner.type) not in _FLOATS:
            return None
        value = unwrap(inner.value)
    called = called_name(value) or ""
    arguments = arguments_of(value)
    if called not in _EXPONENTIALS or len(arguments) != 1:
        return None
    argument = unwrap(arguments[0])
    helpers = _helpers(body, loop_body, argument)
    return None if helpers is None or not is_pure(body, argument) else (called, argument, helpers)


def _difference(argument: Node, largest: str) -> Node | None:
    """``e`` of ``e - m``."""
    if argument.type != "binary_expression" or operator_of(argument) != "-":
        return None
    if text_of(unwrap(field(argument, "right"))) != largest or largest in names_in(field(argument, "left")):
        return None
    return unwrap(field(argument, "left"))


def _spelled(body: KernelBody, passes: Passes, helpers: list[Node], value: Node, number: int) -> str:
    """An expression with its helpers written out and the loop's variable under a common name, to be compared."""
    loop = (passes.first, passes.second)[number]
    known = {v.name: v.value for one in helpers for v in declared_variables(one) if v.value is not None}

    def text(node: Node, depth: int) -> str:
        pieces, at = [], node.start_byte
        raw = node.text or b""
        for name in walk_types(node, "identifier"):
            own = text_of(name)
            replaced = "the round" if own == loop.variable else None
            if own in known and depth < 8:
                replaced = (
                    f"({text(unwrap(known[own]), depth + 1)})"
                    if name is not node
                    else text(unwrap(known[own]), depth + 1)
                )
            if replaced is not None:
                pieces += [raw[at - node.start_byte : name.start_byte - node.start_byte].decode(), replaced]
                at = name.end_byte
        return "".join([*pieces, raw[at - node.start_byte :].decode("utf-8", "surrogateescape")])

    return squeeze(text(value, 0))


def _between(body: KernelBody, passes: Passes, largest: str, total: str) -> tuple[Node | None, Node | None] | Refusal:
    """The statements that combine the maximum and start the sum; a Refusal for anything else between the passes."""
    combine: Node | None = None
    start: Node | None = None
    for statement in passes.between:
        made = assignment_of(statement)
        declared = declared_variables(statement)
        if ([v.name for v in declared] == [total] and _is_zero(declared[0].value)) or (
            made is not None and text_of(made.left) == total and made.operator == "=" and _is_zero(made.right)
        ):
            start = statement
        elif made is not None and text_of(made.left) == largest and _is_collective(made.right, largest):
            if combine is not None:
                return Refusal("the maximum is combined more than once")
            combine = statement
        elif declared and all(v.value is not None and is_pure(body, v.value) for v in declared):
            if total in names_in(statement):
                return Refusal("the sum is used between the passes")
        elif squeeze(text_of(statement)) not in ("__syncthreads();", "__syncwarp();"):
            return Refusal("more happens between the passes than combining the maximum")
    if start is None and not _starts_at_zero_before(body, passes, total):
        return Refusal("the sum does not start at zero between the passes")
    return combine, start


def _is_zero(value: Node | None) -> bool:
    return (
        value is not None
        and re.fullmatch(r"0*\.?0*[fFlL]?", squeeze(text_of(value))) is not None
        and ("0" in text_of(value))
    )


def _is_collective(value: Node | None, name: str) -> bool:
    """``block_max(m)``: a call with the maximum as its only argument."""
    if value is None or unwrap(value).type != "call_expression":
        return False
    arguments = arguments_of(unwrap(value))
    return len(arguments) == 1 and text_of(unwrap(arguments[0])) == name


def _starts_at_zero_before(body: KernelBody, passes: Passes, total: str) -> bool:
    """Whether the sum is declared as zero in front of the first pass and not touched before the second."""
    variable = body.locals.get(total)
    if variable is None or not _is_zero(variable.value) or variable.declaration.end_byte > passes.first.node.start_byte:
        return False
    uses = [
        one
        for one in walk_types(body.body, "identifier")
        if text_of(one) == total and variable.declaration.end_byte <= one.start_byte < passes.second.node.start_byte
    ]
    around = variable.declaration.parent
    return (
        not uses
        and around is not None
        and passes.first.node.parent is not None
        and (around.id == passes.first.node.parent.id)
    )


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = _recognise(context)
    if isinstance(found, _Found):
        return (Option({}, f"`{found.largest.name}` and `{found.sum.name}` in one pass"),)
    # A pass that stores its exponentials can be fused once the store is gone.
    both = Option({"store_once": True}, "maximum and sum in one pass, and elements stored once")
    return found if isinstance(apply(context, both), Refusal) else (both,)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    if option.parameters.get("store_once"):
        first = recompute_element.apply(context, Option())
        return first if isinstance(first, Refusal) else followed_by(context, first, lambda c: apply(c, Option()))
    found = _recognise(context)
    if isinstance(found, Refusal):
        return found
    rationale = (
        f"`{found.largest.name}` and `{found.sum.name}` are gathered in one pass: the row is read once less. "
        "The sum is scaled when a larger element comes (online softmax)."
    )
    return finish(context, found.body, _edits(context, found), rationale)


def _edits(context: RewriteContext, found: _Found) -> list[Edit]:
    unit, body = context.unit, found.body
    first, second = found.passes.first, found.passes.second
    taken = names_in(body.body) | body.parameter_names | frozenset(body.macros)
    value, own = unused_name("value", taken), unused_name(f"own_{found.largest.name}", taken)
    largest, total, exponential = found.largest.name, found.sum.name, found.exponential
    layout = layout_of(unit, body.body)
    outer = indent_at(unit, first.node.start_byte)
    lines = [
        *(code_of(unit, one) for one in found.helpers),
        f"const {found.largest.type} {value} = {code_of(unit, found.element)};",
        f"if ({value} > {largest}) {{",
        f"\t{total} *= {exponential}({largest} - {value});  // what was added is relative to the maximum so far",
        f"\t{largest} = {value};",
        "}",
        # An infinite maximum has no distance from itself; what is lost here comes back as NaN below.
        f"{total} += {exponential}({value} == {largest} ? 0 : {value} - {largest});",
    ]
    text = lines_of_code(lines, layout, outer + layout.step)
    edits = [edit(unit, first.body.start_byte, first.body.end_byte, f"{{\n{text}\n{outer}}}")]
    behind = [
        f"if ({total} != 0) {{",
        f"\t{total} *= {exponential}({own} - {largest});  // relative to the maximum of all; NaN if that is infinite",
        "}",
    ]
    if found.combine is None:
        behind[1] = (
            f"\t{total} *= {exponential}({own} - {largest});  // NaN where the maximum is infinite, else the same"
        )
    whole = lines_of_code([f"const {found.largest.type} {own} = {largest};"], layout, outer)[len(outer) :]
    scaled = lines_of_code(behind, layout, outer)[len(outer) :]
    anchor = found.combine
    if anchor is None:
        edits.append(edit(unit, second.node.start_byte, second.node.end_byte, f"{whole}\n{outer}{scaled}"))
    else:
        edits.append(edit(unit, anchor.start_byte, anchor.start_byte, f"{whole}\n{outer}"))
        edits.append(edit(unit, second.node.start_byte, second.node.end_byte, scaled))
    if found.start is not None:
        begin = substituted(unit, found.start, [])
        edits.append(edit(unit, first.node.start_byte, first.node.start_byte, f"{begin}\n{outer}"))
        edits.append(_line_away(context, found.start))
    return edits


def _line_away(context: RewriteContext, node: Node) -> Edit:
    """A statement taken out with its line; what else stands in the line stays."""
    unit, data = context.unit, context.unit.source.data
    start, end = data.rfind(b"\n", 0, node.start_byte) + 1, data.find(b"\n", node.end_byte)
    alone = end >= 0 and not data[start : node.start_byte].strip() and not data[node.end_byte : end].strip()
    return edit(unit, start, end + 1, "") if alone else edit(unit, node.start_byte, node.end_byte, "")


REWRITE = Rewrite("online-softmax", ("repeated-pass", "redundant-global-traffic"), options, apply)
