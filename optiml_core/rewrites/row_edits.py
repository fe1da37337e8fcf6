"""Edits that let a team of threads do what one thread did for a row: shared loops, collectives, single stores."""

from __future__ import annotations

from attrs import frozen
from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.context import Refusal, RewriteContext
from optiml_core.rewrites.kernel_body import KernelBody
from optiml_core.rewrites.launch_text import is_primary
from optiml_core.rewrites.layout import code_of, edit, indent_at, layout_of, reindented
from optiml_core.rewrites.placing import insert_functions
from optiml_core.rewrites.row_scope import ParallelLoop, RowCode


@frozen
class Team:
    """The threads of one row. ``scope`` names their collectives (``warp``, ``block`` or ``column``).

    ``member``: a thread's number in the team; ``size``: how many they are; ``barrier``: the statement that
    waits for all; ``is_first``: the condition under which one thread stores for all.
    """

    scope: str
    member: str
    size: str
    barrier: str
    is_first: str


def team_edits(context: RewriteContext, body: KernelBody, code: RowCode, team: Team) -> list[Edit] | Refusal:
    """All edits but that of the row's number."""
    unit = context.unit
    step = layout_of(unit, body.body).step
    wanted = [(r.kind, r.type) for one in code.loops for r in one.reductions]
    functions = insert_functions(context, body, wanted, team.scope)
    edits: list[Edit] = list(functions.edits)
    befores: dict[int, list[str]] = {}
    nodes = {one.id: one for one in code.barriers_before}
    for one in code.barriers_before:
        befores.setdefault(one.id, []).append(team.barrier)
    for parallel in code.loops:
        loop = parallel.loop
        if not _stands_in_a_block(loop.node):
            return Refusal("a loop stands without braces under a condition")
        edits += _shared_out(context, parallel, team)
        for reduction in parallel.reductions:
            if reduction.name not in parallel.fresh:
                nodes[loop.node.id] = loop.node
                befores.setdefault(loop.node.id, []).append(
                    f"if ({team.member} != 0) {reduction.name} = 0;  // the first thread keeps what is there"
                )
        lines = [f"{r.name} = {functions.names[(r.kind, r.type)]}({r.name});" for r in parallel.reductions]
        if lines:
            edits.append(_after(context, loop.node, lines))
    for identifier, lines in befores.items():
        node = nodes[identifier]
        if not _stands_in_a_block(node):
            return Refusal("a statement that needs a barrier stands without braces")
        indent = indent_at(unit, node.start_byte)
        edits.append(edit(unit, node.start_byte, node.start_byte, "".join(f"{line}\n{indent}" for line in lines)))
    edits += [_wrapped(context, group, f"if ({team.is_first}) {{", step) for group in code.single]
    return edits


def _shared_out(context: RewriteContext, parallel: ParallelLoop, team: Team) -> list[Edit]:
    loop, unit = parallel.loop, context.unit
    start = code_of(unit, loop.start)
    step = None if loop.step is None else code_of(unit, loop.step)
    if step is not None and not is_primary(step):
        step = f"({step})"
    offset = team.member if step is None else f"{team.member} * {step}"
    constant = _is_zero(start)
    first = offset if constant else f"{start if is_primary(start) else f'({start})'} + {offset}"
    following = team.size if step is None else f"{team.size} * {step}"
    return [
        edit(unit, loop.start.start_byte, loop.start.end_byte, first),
        edit(unit, loop.update.start_byte, loop.update.end_byte, f"{loop.variable} += {following}"),
    ]


def _is_zero(text: str) -> bool:
    return text.strip().rstrip("uUlL") == "0"


def _stands_in_a_block(node: Node) -> bool:
    return node.parent is not None and node.parent.type == "compound_statement"


def _after(context: RewriteContext, node: Node, lines: list[str]) -> Edit:
    """Lines behind a statement, and behind the comment that ends its line."""
    unit = context.unit
    data = unit.source.data
    end_of_line = data.find(b"\n", node.end_byte)
    end_of_line = len(data) if end_of_line < 0 else end_of_line
    rest = data[node.end_byte : end_of_line].strip()
    indent = indent_at(unit, node.start_byte)
    if rest and not rest.startswith(b"//"):
        return edit(unit, node.end_byte, node.end_byte, " " + " ".join(lines))
    at = len(data[:end_of_line].rstrip(b"\r")) if rest else node.end_byte
    return edit(unit, at, at, "".join(f"\n{indent}{line}" for line in lines))


def _wrapped(context: RewriteContext, group: tuple[Node, ...], condition: str, step: str) -> Edit:
    """``if (lane == 0) { ... }`` around neighbouring statements and the comments between them."""
    unit = context.unit
    start, end = group[0].start_byte, group[-1].end_byte
    indent = indent_at(unit, start)
    text = unit.source.data[start:end].decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    inner = reindented(text, indent, indent + step)
    return edit(unit, start, end, f"{condition}\n{indent}{step}{inner}\n{indent}}}")
