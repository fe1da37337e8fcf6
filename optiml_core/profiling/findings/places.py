"""The exact source range of an access: the expression, not the whole line, where the source room knows it."""

from __future__ import annotations

from optiml_core.profiling.findings.context import FindingContext, line_range
from optiml_core.records import AccessCounts, SourceRange


def access_range(context: FindingContext, access: AccessCounts) -> SourceRange:
    """Where the access stands: the first of its array and kind in its line, else the line's text."""
    return line_range(context, access.line)
