"""The exact source range of an access: the expression, not the whole line, where the source room knows it."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, line_range
from optiml_core.records import AccessCounts, SourceRange
from optiml_core.source import accesses


def access_range(context: FindingContext, access: AccessCounts) -> SourceRange:
    """Where the access stands: the first of its array and kind in its line, else the line's text."""
    here = [
        known
        for known in accesses(context.unit, context.kernel)
        if known.range.start_line <= access.line <= known.range.end_line
        and known.kind == access.kind
        and (known.space == "shared") == (access.space == "shared")
    ]
    named = [known for known in here if known.array == access.buffer]
    chosen = named or (here if len(here) == 1 else [])
    return chosen[0].range if chosen else line_range(context, access.line)
