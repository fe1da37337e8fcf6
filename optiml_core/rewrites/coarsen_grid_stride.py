"""Several elements a thread: the guard becomes a loop that strides over the whole launch."""

from __future__ import annotations

from tree_sitter import Node

from optiml_core.records import Edit
from optiml_core.rewrites.context import Option, Refusal, Rewrite, RewriteContext, Rewritten
from optiml_core.rewrites.finish import finish
from optiml_core.rewrites.kernel_body import returns_in
from optiml_core.rewrites.launch_text import plan
from optiml_core.rewrites.layout import code_of, edit, indent_at, layout_of, reindented
from optiml_core.rewrites.one_element import OneElement, read_one_element
from optiml_core.rewrites.syntax import field, text_of

FACTORS = (4, 2, 8)
BLOCKS_A_MULTIPROCESSOR = 4


def options(context: RewriteContext) -> tuple[Option, ...] | Refusal:
    found = read_one_element(context)
    if isinstance(found, Refusal):
        return found
    options_ = [Option({"factor": factor}, f"{factor} elements a thread") for factor in FACTORS]
    blocks = blocks_that_fill(context)
    if blocks is not None:
        options_.append(Option({"blocks": blocks}, f"{blocks} blocks at most, which fill the GPU"))
    made = apply(context, options_[0])
    if isinstance(made, Refusal):
        # The kernel is right for any launch: without its callers only the loop is offered.
        return (Option({"factor": 1}, "any number of elements a thread, the launch as it is"),)
    return tuple(options_)


def blocks_that_fill(context: RewriteContext) -> int | None:
    """A few blocks for every multiprocessor of the GPU at hand, if the launch has twice as many at least."""
    if context.gpu is None or context.launch is None:
        return None
    blocks = BLOCKS_A_MULTIPROCESSOR * context.gpu.multiprocessors
    return blocks if context.launch.grid[0] >= 2 * blocks else None


def apply(context: RewriteContext, option: Option) -> Rewritten | Refusal:
    found = read_one_element(context)
    if isinstance(found, Refusal):
        return found
    if "blocks" in option.parameters:
        blocks = int(option.parameters["blocks"])
        rationale = f"At most {blocks} blocks go over all elements: what a block does once is done less often."
        launch_ = plan((f"min(grid.x, {blocks})", "grid.y", "grid.z"))
        return finish(context, found.body, _edits(context, found), rationale, launch=launch_)
    factor = int(option.parameters["factor"])
    launch = None
    if factor > 1:
        launch = plan((f"ceil_div(grid.x, {factor})", "grid.y", "grid.z"))
    rationale = (
        f"A thread works on {factor if factor > 1 else 'several'} elements, a whole launch apart from each other."
    )
    return finish(context, found.body, _edits(context, found), rationale, launch=launch)


def _edits(context: RewriteContext, found: OneElement) -> list[Edit]:
    unit, work, index = context.unit, found.work, found.index
    guard = work.guard
    assert guard is not None
    bound = work.bounds[0]
    kind = " ".join(word for word in index.type.split() if word != "const")
    value = code_of(unit, found.body.definitions[index.name])
    head = f"for ({kind} {index.name} = {value}; {index.name} < {bound.limit}; {index.name} += blockDim.x * gridDim.x)"
    layout = layout_of(unit, found.body.body)
    edits = [_removed(context, index.declaration)]
    continued = [
        edit(unit, node.start_byte, node.end_byte, "continue;") for one in work.work for node in returns_in(one)
    ]
    if not work.leaves:
        condition = field(guard, "condition")
        return [*edits, edit(unit, guard.start_byte, condition.end_byte, head), *continued]
    first, last = work.work[0], work.work[-1]
    indent = indent_at(unit, guard.start_byte)
    text = unit.source.data[first.start_byte : last.end_byte].decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    for node in sorted((n for one in work.work for n in returns_in(one)), key=lambda n: -n.start_byte):
        at = len(
            unit.source.data[first.start_byte : node.start_byte]
            .decode("utf-8", "surrogateescape")
            .replace("\r\n", "\n")
        )
        text = text[:at] + "continue;" + text[at + len(text_of(node)) :]
    inner = reindented(text, indent, indent + layout.step)
    between = unit.source.data[guard.end_byte : first.start_byte].decode("utf-8", "surrogateescape").strip()
    lead = f"{reindented(between, indent, indent + layout.step)}\n{indent}{layout.step}" if between else ""
    edits.append(
        edit(unit, guard.start_byte, last.end_byte, f"{head} {{\n{indent}{layout.step}{lead}{inner}\n{indent}}}")
    )
    return edits


def _removed(context: RewriteContext, node: Node) -> Edit:
    """The whole line of a declaration that moved into a loop's head."""
    data = context.unit.source.data
    start, end = node.start_byte, node.end_byte
    line = data.rfind(b"\n", 0, start) + 1
    following = data.find(b"\n", end)
    alone = not data[line:start].strip() and following >= 0 and not data[end:following].strip()
    return edit(context.unit, line, following + 1, "") if alone else edit(context.unit, start, end, "")


REWRITE = Rewrite("coarsen-grid-stride", ("latency-bound-launch", "atomic-contention", "narrow-access"), options, apply)
