"""The tokens of CUDA source, with their places, for the few things that are decided or changed on text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

_TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)"""
    r"""|(?P<string>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")"""
    r"""|(?P<character>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')"""
    r"""|(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)"""
    r"""|(?P<name>[^\W\d]\w*)"""
    r"""|(?P<other>::|<<<|>>>|->|\S)""",
    re.DOTALL,
)


@frozen
class Token:
    """``kind``: name, number, string, character or other. ``text[start:end]`` is its spelling."""

    kind: str
    spelling: str
    start: int
    end: int

    def is_name(self, *names: str) -> bool:
        return self.kind == "name" and self.spelling in names


def tokens(text: str) -> list[Token]:
    """Everything but blanks and comments, directives included."""
    return list(_tokens(text))


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind == "delimiter":
            kind = "string"
        if kind != "comment":
            yield Token(kind, match.group(), match.start(), match.end())


_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)


def without_directives(text: str, found: list[Token]) -> list[Token]:
    """The tokens that are not part of a preprocessor line."""
    ranges = [m.span() for m in _DIRECTIVE.finditer(text)]
    kept, at = [], 0
    for token in found:
        while at < len(ranges) and ranges[at][1] <= token.start:
            at += 1
        if at == len(ranges) or token.start < ranges[at][0]:
            kept.append(token)
    return kept


def line_of(text: str, position: int) -> int:
    """The 1-based line of an offset."""
    return text.count("\n", 0, position) + 1


def closing(found: list[Token], start: int) -> int:
    """Index of the bracket that closes the one at ``start``; the number of tokens where there is none."""
    pairs = {"(": ")", "[": "]", "{": "}"}
    opening, close = found[start].spelling, pairs[found[start].spelling]
    depth = 0
    for index in range(start, len(found)):
        depth += (found[index].spelling == opening) - (found[index].spelling == close)
        if depth == 0:
            return index
    return len(found)


def replaced(text: str, changes: list[tuple[int, int, str]]) -> str:
    """``text`` with each ``[start, end)`` replaced; the changes do not overlap. Line breaks inside a change stay."""
    parts, position = [], 0
    for start, end, new in sorted(changes):
        parts += [text[position:start], new, "\n" * (text.count("\n", start, end) - new.count("\n"))]
        position = end
    return "".join([*parts, text[position:]])
