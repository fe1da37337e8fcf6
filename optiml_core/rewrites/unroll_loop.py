"""Asks the compiler to unroll an inner loop, so that its loads are under way at the same time."""

from __future__ import annotations

from tree_sitter import Node

from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import KernelBody, read_kernel
from optiml_core.rewrites.layout import edit, indent_at, line_start
from optiml_core.rewrites.loops import CountedLoop, counted_loop, innermost_loops, literal_trips
from optiml_core.rewrites.memory import accesses_in
from optiml_core.rewrites.syntax import walk_types

FACTORS = (4, 8)
MOST_LOOPS = 3
FULL_UNROLL = 32  # rounds


def _loops(context: RewriteContext, body: KernelBody) -> list[CountedLoop] | Refusal:
    found = []
    reason = "the kernel has no loop"
    for node in innermost_loops(body.body):
        loop = counted_loop(node)
        if loop is None:
            reason = "no inner loop is a counted one"
        elif _is_marked(context, node):
            reason = "the inner loops are marked for unrolling already"
        elif not _begins_its_line(context, node) or node.parent is None or node.parent.type != "compound_statement":
            reason = "the loop does not begin its line in a block"
        elif loop.step is not None and body.polynomial(loop.step).constant is None:
            # Unrolled on demand it is tested after every round, so that nothing moves from one to the next.
            reason = f"the step of the loop over `{loop.variable}` is not a number"
        elif not accesses_in(body, loop.body):
            reason = "no inner loop touches memory"
        elif next(walk_types(loop.body, "break_statement", "return_statement"), None) is not None:
            reason = "the inner loop may end early"
        elif (literal_trips(body, loop) or 99) < 2:
            reason = "the inner loop has one round at most"
        else:
            found.append(loop)
    return found[:MOST_LOOPS] or Refusal(reason)


def _begins_its_line(context: RewriteContext, node: Node) -> bool:
    return not context.unit.source.data[line_start(context.unit, node.start_byte) : node.start_byte].strip()


def _is_marked(context: RewriteContext, node: Node) -> bool:
    """Whether the line above is ``#pragma unroll`` (the tree does not show pragmas)."""
    source = context.unit.source
    number = source.line_of(node.start_byte) - 1
    while number > 1 and not source.line_bytes(number).strip():
        number -= 1
    line = source.line_bytes(number).strip()
    return line.startswith(b"#") and b"unroll" in line


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = _loops(context, body)
    if isinstance(found, Refusal):
        return found
    choices: list[Option] = []
    for number, loop in enumerate(found):
        trips = literal_trips(body, loop)
        if trips is not None and trips <= FULL_UNROLL:
            choices.append(Option({"loop": number, "factor": 0}, f"the loop over `{loop.variable}` in full"))
            continue
        choices += [
            Option({"loop": number, "factor": factor}, f"the loop over `{loop.variable}` by {factor}")
            for factor in FACTORS
        ]
    return tuple(choices)


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    body = read_kernel(context)
    if isinstance(body, Refusal):
        return body
    found = _loops(context, body)
    if isinstance(found, Refusal):
        return found
    number, factor = int(option.parameters["loop"]), int(option.parameters["factor"])
    if number >= len(found):
        return Refusal("there is no such loop")
    loop = found[number]
    start = loop.node.start_byte
    pragma = f"#pragma unroll {factor}" if factor else "#pragma unroll"
    rationale = f"The loop over `{loop.variable}` is unrolled: loads of {factor or 'all'} rounds are under way at once."
    edits = [edit(context.unit, start, start, f"{pragma}\n{indent_at(context.unit, start)}")]
    return finish(context, body, edits, rationale)


REWRITE = Rewrite(
    "unroll-loop", ("memory-latency", "latency-bound-launch", "low-occupancy", "barrier-bound"), options, apply
)
