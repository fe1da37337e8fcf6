"""Uses of macros: an edit must never cut into one, since its text means something else once expanded."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable

from attrs import frozen

from optiml_core.records import Edit, Failure, SourceRange
from optiml_core.source.lexical import closing_bracket
from optiml_core.source.memory import remembered
from optiml_core.source.translation_unit import TranslationUnit

_CALL = re.compile(rb"\b([A-Za-z_]\w*)\s*\(")
_CAPITALS = re.compile(rb"[A-Z][A-Z0-9]*(?:_[A-Z0-9_]+)?")
_NO_MACROS = frozenset({b"if", b"for", b"while", b"switch", b"return", b"sizeof", b"defined"})


@frozen
class MacroUse:
    """A call of a function-like macro with its arguments: ``certain`` if the file defines the macro; else
    it only looks like one (``ALL_CAPITALS`` with parentheses)."""

    name: str
    start: int
    end: int
    certain: bool


def macro_calls(unit: TranslationUnit) -> tuple[MacroUse, ...]:
    """The outermost macro calls in the code of the file, in order."""
    return remembered(unit, "macro_calls", lambda: _macro_calls(unit))


def _macro_calls(unit: TranslationUnit) -> tuple[MacroUse, ...]:
    own = {m.name.encode() for m in unit.blanked.macros if m.parameters is not None}
    skeleton = unit.scan.skeleton
    found: list[MacroUse] = []
    end = 0
    for match in _CALL.finditer(skeleton):
        name = match[1]
        if match.start() < end or name in _NO_MACROS or not (name in own or _CAPITALS.fullmatch(name)):
            continue
        closing = closing_bracket(skeleton, match.end() - 1)
        if closing is None:
            continue
        end = closing + 1
        found.append(MacroUse(name.decode(), match.start(), end, name in own))
    return tuple(found)


def enclosing_macro_call(unit: TranslationUnit, byte: int) -> SourceRange | None:
    """The whole macro call whose inside (behind its first byte) holds ``byte``, or None."""
    calls = macro_calls(unit)
    index = bisect_right(calls, byte, key=lambda c: c.start) - 1
    if index >= 0 and calls[index].start < byte < calls[index].end:
        return unit.source.range(calls[index].start, calls[index].end)
    return None


def cut_by(unit: TranslationUnit, start: int, end: int) -> str | None:
    """What an edit of ``start`` to ``end`` would cut into: a macro call, a directive, a comment or a string,
    as words for people; None if it cuts into nothing. Replacing such a thing as a whole is no cut."""
    for use in macro_calls(unit):
        if use.start < end and start < use.end and not (start <= use.start and use.end <= end):
            return f"the macro call {use.name}(...)"
        if start == end and use.start < start < use.end:
            return f"the macro call {use.name}(...)"
    for span in unit.scan.spans:
        if span.start >= end and span.start > start:
            break
        overlaps = span.start < end and start < span.end
        inside = start == end and span.start < start < span.end
        if inside or (overlaps and not (start <= span.start and span.end <= end)):
            return {"directive": "a preprocessor directive", "inactive": "code that is switched off"}.get(
                span.kind, f"a {span.kind}"
            )
    return None


def check_edits(unit: TranslationUnit, edits: Iterable[Edit], *, allow_comments: bool = True) -> Failure | None:
    """A ``Failure`` of kind ``refused`` for the first edit that cuts into a macro call, a directive or a
    string (or a comment, unless allowed), else None. Edits of other files are not looked at."""
    for edit in edits:
        if edit.file != unit.source.path:
            continue
        cut = cut_by(unit, edit.start_byte, edit.end_byte)
        if cut is not None and not (allow_comments and cut == "a comment"):
            line, column = unit.source.position(edit.start_byte)
            return Failure("refused", f"the edit would cut into {cut}", unit.source.path, line, column)
    return None
