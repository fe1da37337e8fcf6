"""One pass over a file's bytes: what is code, comment, string, directive or switched off.

Everything later stands on the ``skeleton``: the file with comments, literals, directives and
inactive branches replaced by blanks of the same length, so that a regular expression over it sees
code only and every offset stays valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Literal, NamedTuple

from attrs import define, field

SpanKind = Literal["comment", "string", "directive", "inactive"]

# Named tuples and not attrs records: a file has thousands, and they are made at every keystroke.


class Span(NamedTuple):
    """A half-open byte range that is not ordinary code."""

    kind: SpanKind
    start: int
    end: int


class Directive(NamedTuple):
    """A preprocessor directive: its word (``define``, ``if`` ...), the rest of its text, its range."""

    word: str
    text: str  # joined over line continuations, without comments
    start: int
    end: int  # without the line end


class Brace(NamedTuple):
    """A brace or a branch of a conditional, in the order of the file: ``{ } if else endif``."""

    kind: Literal["{", "}", "if", "else", "endif"]
    at: int


@define(frozen=True, slots=False)
class LexicalScan:
    """What one pass found. ``skeleton`` has the length of the data."""

    skeleton: bytes = field(repr=False)
    spans: tuple[Span, ...] = field(repr=False)
    directives: tuple[Directive, ...] = field(repr=False)

    @cached_property
    def branches(self) -> tuple[Brace, ...]:
        """The branches of conditionals, in the order of the file."""
        return tuple(b for d in self.directives if (b := _branch_event(d)) is not None)

    @cached_property
    def events(self) -> tuple[Brace, ...]:
        """Braces and branches of conditionals, in the order of the file."""
        return tuple(self.events_between(0, len(self.skeleton)))

    def events_between(self, start: int, end: int) -> list[Brace]:
        """The braces and branches in a byte range."""
        found = [
            Brace("{" if m[0] == b"{" else "}", m.start())  # the two are the only matches
            for m in _BRACE.finditer(self.skeleton, start, end)
        ]
        branches = [b for b in self.branches if start <= b.at < end]
        return sorted([*found, *branches], key=lambda e: e.at) if branches else found


_BRACE = re.compile(rb"[{}]")
_INTERESTING = re.compile(rb"[/#\"']")
_STRING = re.compile(rb'"(?:[^"\\\n]|\\.)*"?', re.DOTALL)
_CHARACTER = re.compile(rb"'(?:[^'\\\n]|\\.)*'?", re.DOTALL)
_RAW_STRING = re.compile(rb'"(?P<fence>[^()\\\s"]{0,16})\(.*?(?:\)(?P=fence)"|\Z)', re.DOTALL)
_RAW_PREFIX = re.compile(rb"(?<![A-Za-z0-9_])(?:u8|[uUL])?R\Z")

_DIRECTIVE = re.compile(
    rb"""
    \#(?:
        //(?:[^\\\n]|\\\r?\n|\\.)*
      | /\*.*?(?:\*/|\Z)
      | "(?:[^"\\\n]|\\[^\r\n])*"
      | \\\r?\n
      | [^\n]
    )*
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE_COMMENT = re.compile(rb'//(?:[^\\\n]|\\\r?\n|\\.)*|/\*.*?(?:\*/|\Z)|("(?:[^"\\\n]|\\.)*")', re.DOTALL)
_WORD = re.compile(r"#\s*([A-Za-z_]\w*)\s*(.*)", re.DOTALL)
_CONTINUATION = re.compile(rb"\\\r?\n")
_ALWAYS_FALSE = re.compile(r"\(?\s*(?:0+[uUlL]*|false)\s*\)?(?:\s*&&.*)?", re.DOTALL)
_ALWAYS_TRUE = re.compile(r"\(?\s*(?:0*[1-9]\d*[uUlL]*|true)\s*\)?(?:\s*\|\|.*)?", re.DOTALL)
_NOT_NEWLINE = re.compile(rb"[^\r\n]")
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")


def blank(data: bytes) -> bytes:
    """Spaces of the same length; line ends stay."""
    if b"\n" not in data and b"\r" not in data:
        return b" " * len(data)
    return _NOT_NEWLINE.sub(b" ", data)


def scan(data: bytes) -> LexicalScan:
    """One pass over ``data``; never raises, whatever the bytes are."""
    spans: list[Span] = []
    directives: list[Directive] = []
    scan_range(data, 0, len(data), spans, directives)
    inactive = _inactive_ranges(directives)
    if inactive:
        spans = _without(spans, inactive)
        directives = [d for d in directives if not any(a <= d.start < b for a, b in inactive)]
    return LexicalScan(skeleton_of(data, 0, len(data), spans), tuple(spans), tuple(directives))


def scan_range(data: bytes, start: int, end: int, spans: list[Span], directives: list[Directive]) -> int:
    """Appends the spans that begin between ``start`` (outside all spans) and ``end``; returns where the
    last of them ends, or ``end``."""
    at = start
    search = _INTERESTING.search
    while (match := search(data, at, end)) is not None:
        found = match.start()
        first = data[found]
        if first == 0x2F:
            second = data[found + 1 : found + 2]
            if second == b"/":
                at = _end_of_line_comment(data, found)
            elif second == b"*":
                closing = data.find(b"*/", found + 2)
                at = len(data) if closing < 0 else closing + 2
            else:
                at = found + 1
                continue
            spans.append(Span("comment", found, at))
        elif first == 0x23:
            whole = _DIRECTIVE.match(data, found)
            at = whole.end() if whole else found + 1
            directives.append(_read_directive(data, found, at))
            spans.append(Span("directive", found, at))
        elif first == 0x22:
            prefix = _RAW_PREFIX.search(data, max(0, found - 3), found) if data[found - 1 : found] == b"R" else None
            text = (_RAW_STRING.match(data, found) if prefix is not None else None) or _STRING.match(data, found)
            at = text.end() if text is not None else found + 1
            spans.append(Span("string", found, at))
        elif found > 0 and data[found - 1] in _HEXADECIMAL and data[found - 2 : found] != b"u8":
            at = found + 1  # a digit separator
        else:
            text = _CHARACTER.match(data, found)
            at = text.end() if text is not None else found + 1
            spans.append(Span("string", found, at))
    return max(at, end)


def _end_of_line_comment(data: bytes, at: int) -> int:
    while True:
        end = data.find(b"\n", at)
        if end < 0:
            return len(data)
        if data[end - 1 : end] != b"\\" and data[end - 2 : end] != b"\\\r":
            return end
        at = end + 1


def _read_directive(data: bytes, start: int, end: int) -> Directive:
    raw = _CONTINUATION.sub(b" ", data[start:end])
    if b"/" in raw:
        raw = _DIRECTIVE_COMMENT.sub(lambda m: m[1] or b" ", raw)
    found = _WORD.match(raw.decode("utf-8", "replace"))
    return Directive(found[1] if found else "", found[2].strip() if found else "", start, end)


def _branch_event(directive: Directive) -> Brace | None:
    if directive.word in ("if", "ifdef", "ifndef"):
        return Brace("if", directive.start)
    if directive.word in ("else", "elif", "elifdef", "elifndef"):
        return Brace("else", directive.start)
    return Brace("endif", directive.start) if directive.word == "endif" else None


def _inactive_ranges(directives: Iterable[Directive]) -> list[tuple[int, int]]:
    """The ranges that a literal condition switches off: after ``#if 0``, or the ``#else`` of ``#if 1``.

    A condition on a name is left alone: flags may define it.
    """
    ranges: list[tuple[int, int]] = []
    # Per open conditional: where the switched-off branch began (or None), and whether a branch is surely taken.
    stack: list[tuple[int | None, bool]] = []
    for directive in directives:
        word = directive.word
        if word in ("if", "ifdef", "ifndef"):
            off = word == "if" and _ALWAYS_FALSE.fullmatch(directive.text) is not None
            on = word == "if" and _ALWAYS_TRUE.fullmatch(directive.text) is not None
            stack.append((directive.end if off else None, on))
        elif word in ("else", "elif", "elifdef", "elifndef") and stack:
            began, taken = stack.pop()
            if began is not None:
                ranges.append((began, directive.start))
            off = taken or (word == "elif" and _ALWAYS_FALSE.fullmatch(directive.text) is not None)
            on = word == "elif" and _ALWAYS_TRUE.fullmatch(directive.text) is not None
            stack.append((directive.end if off else None, taken or on))
        elif word == "endif" and stack:
            began, _ = stack.pop()
            if began is not None:
                ranges.append((began, directive.start))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _without(spans: list[Span], inactive: list[tuple[int, int]]) -> list[Span]:
    kept = [s for s in spans if not any(a <= s.start < b for a, b in inactive)]
    kept.extend(Span("inactive", a, b) for a, b in inactive)
    return sorted(kept, key=lambda s: s.start)


def skeleton_of(data: bytes, start: int, end: int, spans: Iterable[Span]) -> bytes:
    """The bytes from ``start`` to ``end`` with the given spans blanked."""
    pieces: list[bytes] = []
    at = start
    for kind, span_start, span_end in spans:
        pieces.append(data[at:span_start])
        hidden = data[span_start:span_end]
        if kind == "string" and len(hidden) >= 2:
            # The quotes stay: an argument that is a literal is still an argument.
            pieces.append(b'"' + blank(hidden[1:-1]) + b'"')
        else:
            pieces.append(blank(hidden))
        at = span_end
    pieces.append(data[at:end])
    return b"".join(pieces)


def without_comments(data: bytes, start: int, end: int, spans: Iterable[Span]) -> bytes:
    """The bytes from ``start`` to ``end`` with the comments among the spans blanked; literals stay."""
    pieces: list[bytes] = []
    at = start
    for kind, span_start, span_end in spans:
        if kind == "comment":
            pieces.append(data[at:span_start])
            pieces.append(blank(data[span_start:span_end]))
            at = span_end
    pieces.append(data[at:end])
    return b"".join(pieces)


_BRACKETS = {
    ord("("): re.compile(rb"[()]"),
    ord("["): re.compile(rb"[\[\]]"),
    ord("{"): re.compile(rb"[{}]"),
}


def closing_bracket(skeleton: bytes, opening: int, limit: int | None = None) -> int | None:
    """Offset of the bracket that closes the ``(``, ``[`` or ``{`` at ``opening``, or None."""
    pattern = _BRACKETS[skeleton[opening]]
    depth = 0
    for match in pattern.finditer(skeleton, opening, len(skeleton) if limit is None else limit):
        if match[0] in b"([{":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return match.start()
    return None


def split_at_commas(skeleton: bytes, start: int, end: int, *, declarations: bool = False) -> list[tuple[int, int]]:
    """The ranges between the commas of ``start`` to ``end`` that stand outside all brackets.

    A ``<`` counts as a bracket only where its ``>`` follows before any ``;`` or unbalanced bracket
    and what stands between reads like template arguments, because it may as well be "less than".
    Among expressions (``declarations`` false) one with a blank before it is "less than".
    """
    parts: list[tuple[int, int]] = []
    depth = 0
    part = start
    behind = start  # where the angle brackets that were recognised end
    for match in _LIST_SIGN.finditer(skeleton, start, end):
        at, sign = match.start(), match[0]
        if at < behind:
            continue
        if sign in b"([{":
            depth += 1
        elif sign in b")]}":
            depth -= 1
        elif sign == b",":
            if depth == 0:
                parts.append((part, at))
                part = at + 1
        elif depth == 0 and (declarations or not skeleton[at - 1 : at].isspace()):
            closing = _closing_angle(skeleton, at, end)
            behind = closing + 1 if closing is not None else behind
    if parts or skeleton[part:end].strip():
        parts.append((part, end))
    return parts


_LIST_SIGN = re.compile(rb"[(){}\[\],<]")
_IDENTIFIER_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def name_before(skeleton: bytes, end: int) -> tuple[int, int] | None:
    """Start and end of the name, with its ``::``, that stands right before ``end`` (white space apart)."""
    while end > 0 and skeleton[end - 1 : end].isspace():
        end -= 1
    start = end
    while True:
        at = start
        while at > 0 and skeleton[at - 1] in _IDENTIFIER_BYTES:
            at -= 1
        if at == start or skeleton[at] in b"0123456789":
            break
        start = at
        while at > 0 and skeleton[at - 1 : at].isspace():
            at -= 1
        if skeleton[at - 2 : at] != b"::":
            break
        start = at = at - 2
        while at > 0 and skeleton[at - 1 : at].isspace():
            at -= 1
        if at == 0 or skeleton[at - 1] not in _IDENTIFIER_BYTES:
            break  # a leading ``::``
        start = at
    return (start, end) if start < end else None


_TEMPLATE_ARGUMENTS = re.compile(rb"[\w\s:,*&<>()\[\].+\-/%\"=!|]*")


def _closing_angle(skeleton: bytes, opening: int, end: int) -> int | None:
    if skeleton[opening + 1 : opening + 2] in (b"=", b"<") or name_before(skeleton, opening) is None:
        return None
    depth = 0
    parens = 0
    for at in range(opening, end):
        byte = skeleton[at]
        if byte in b"([":
            parens += 1
        elif byte in b")]":
            parens -= 1
            if parens < 0:
                return None
        elif byte in b";{}?" or skeleton[at : at + 2] in (b"&&", b"||"):
            return None
        elif parens == 0 and byte == 0x3C:
            depth += 1
        elif parens == 0 and byte == 0x3E and skeleton[at - 1] != 0x2D:
            depth -= 1
            if depth == 0:
                inside = skeleton[opening + 1 : at]
                return at if _TEMPLATE_ARGUMENTS.fullmatch(inside) else None
    return None
