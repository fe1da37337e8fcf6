"""Where new device functions go: above the kernel and the comments that belong to it."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from optiml_core.records import Edit
from optiml_core.rewrites.context import RewriteContext
from optiml_core.rewrites.kernel_body import KernelBody
from optiml_core.rewrites.layout import all_names, edit, layout_of, line_start
from optiml_core.rewrites.reductions import ReductionKind, collectives
from optiml_core.rewrites.syntax import walk_types


@frozen
class PlacedFunctions:
    """Collectives for a kernel: what each is called, and the edits that add those the file does not have."""

    names: dict[tuple[str, str], str]
    edits: tuple[Edit, ...]


def insert_functions(
    context: RewriteContext, body: KernelBody, wanted: Iterable[tuple[ReductionKind, str]], scope: str
) -> PlacedFunctions:
    """The functions that combine values of the wanted kinds and types over a ``warp`` or a ``block``."""
    unit = context.unit
    # No word of the file: another kernel's local of that name would seem to mean the new function.
    taken = all_names(unit)
    file_text = unit.source.data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    made = collectives(wanted, scope, file_text, taken, layout_of(unit, body.body).step)
    if not made.text:
        return PlacedFunctions(made.names, ())
    above = _above(context)
    return PlacedFunctions(made.names, (edit(unit, above, above, made.text + "\n"),))


def _above(context: RewriteContext) -> int:
    """The start of the line above which a function can stand: ahead of the comments that belong to the kernel."""
    source = context.unit.source
    start = context.kernel.range.start_byte
    comments = {
        source.line_of(node.end_byte): node.start_byte
        for node in walk_types(context.unit.tree.root_node, "comment")
        if node.end_byte <= start
        and not source.data[line_start(context.unit, node.start_byte) : node.start_byte].strip()
    }
    while (above := comments.get(source.line_of(start) - 1)) is not None:
        start = above
    return line_start(context.unit, start)
