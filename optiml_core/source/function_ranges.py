"""The functions of a file by tokens alone: also where the grammar has lost its way."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from optiml_core.source.lexical import LexicalScan

# Braces whose contents are still at the scope of functions.
_TRANSPARENT = re.compile(rb"\s*(?:inline\s+)?namespace\b|\s*extern\s*\"\s*\"\s*\Z")
_CLASS = re.compile(rb"\b(?:class|struct|union|enum)\b")
_TEMPLATE = re.compile(rb"\btemplate\s*<[^{};]*>")


def function_ranges(scan: LexicalScan, skeleton: bytes) -> tuple[tuple[int, int], ...]:
    """Start and end of every function with a body, in order, with its qualifiers and template header.

    One that never closes reaches to the end of the file. Branches of a conditional that open one
    block twice count once.
    """
    found: list[tuple[int, int]] = []
    depth = 0  # braces inside the current function
    outer = 0  # transparent braces around it
    start = 0
    branches: list[tuple[int, int, bool]] = []
    for kind, at in scan.events:
        if kind == "if":
            branches.append((depth, depth, False))
        elif kind == "else" and branches:
            before, end_of_first, seen = branches[-1]
            branches[-1] = (before, end_of_first if seen else depth, True)
            depth = before
        elif kind == "endif" and branches:
            _, end_of_first, seen = branches.pop()
            depth = end_of_first if seen else depth
        elif kind == "{":
            if depth == 0:
                head = max(skeleton.rfind(sign, 0, at) for sign in (b";", b"{", b"}")) + 1
                if _is_transparent(skeleton[head:at]):
                    outer += 1
                    continue
                while head < at and skeleton[head : head + 1].isspace():
                    head += 1
                start = head
            depth += 1
        elif kind == "}":
            if depth > 0:
                depth -= 1
                if depth == 0 and b"(" in skeleton[start:at]:
                    found.append((start, at + 1))
            elif outer > 0:
                outer -= 1
    if depth > 0:
        found.append((start, len(skeleton)))
    return tuple(found)


def _is_transparent(head: bytes) -> bool:
    if _TRANSPARENT.match(head):
        return True
    return b"(" not in _TEMPLATE.sub(b"", head) and _CLASS.search(_TEMPLATE.sub(b"", head)) is not None


def range_around(ranges: Sequence[tuple[int, int]], at: int) -> tuple[int, int] | None:
    """The range that holds an offset, or None."""
    index = bisect_right(ranges, at, key=lambda r: r[0]) - 1
    return ranges[index] if index >= 0 and at < ranges[index][1] else None
