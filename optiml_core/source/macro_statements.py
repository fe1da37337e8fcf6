"""Step b of blanking: macro calls that stand where a statement stands.

One without a ``;`` gets it in place of the white space behind it; one that opens a loop
(``KERNEL_LOOP(i, n) {``) reads as ``while``; a type among its arguments reads as ``0``.
"""

from __future__ import annotations

import re

from optiml_core.source.lexical import closing_bracket, split_at_commas
from optiml_core.source.macro_text import MacroText
from optiml_core.source.repairs import Repairs, whole_word, words_pattern

_CAPITALS_CALL = re.compile(rb"\n[ \t]*+([A-Z_][A-Z0-9_]{2,}+)[ \t]*+\(")
_ARGUMENTS = re.compile(rb"\s*\(")
_NEXT = re.compile(rb"\s*(?:([A-Za-z_#]\w*)|(\S))")
_NOT_AFTER_A_STATEMENT = frozenset(b"const noexcept override final try throw requires and or not xor volatile".split())
_LOOP_NAME = re.compile(rb"[A-Z0-9_]*(?:LOOP|FOR_?EACH|_FOR)[A-Z0-9_]*|FOR")
_LOOP_BODY = re.compile(r"\s*(?:for|while)\s*\(")
_TYPE_WORD = re.compile(rb"[,(]\s*(?:unsigned|signed|int|float|double|char|short|long|half|bool)\b")
_TYPE_ARGUMENT = re.compile(rb"\s*(?:unsigned |signed )?\s*(?:int|float|double|char|short|long|half|bool)\s*\**\s*")


def end_macro_statements(data: bytes, skeleton: bytes, macros: tuple[MacroText, ...], repairs: Repairs) -> None:
    """``data`` and ``skeleton`` of equal length; the repairs are meant for both."""
    own = {m.name.encode(): m for m in macros if m.parameters is not None}
    ended = _Ended()
    for match in _CAPITALS_CALL.finditer(skeleton):
        if match[1] not in own:
            _statement(data, skeleton, match.start(1), match.end() - 1, match[1], None, repairs, ended)
    if own:
        for match in words_pattern(frozenset(m.name for m in own.values())).finditer(skeleton):
            opening = _ARGUMENTS.match(skeleton, match.end())
            if opening is None or not whole_word(skeleton, match.start()):
                continue
            name = match[0]
            _types_among_arguments(skeleton, opening.end() - 1, repairs)
            _statement(data, skeleton, match.start(), opening.end() - 1, name, own[name], repairs, ended)
    statements = _statement_macros(macros)
    if statements:
        for match in words_pattern(statements).finditer(skeleton):
            place = _room_for_semicolon(data, match.end())
            following = _NEXT.match(skeleton, match.end())
            ends = following is None or following[1] is not None or following[2] in (b"}", b"*", b"+", b"-")
            if whole_word(skeleton, match.start()) and place is not None and ends and following is not None:
                repairs.put(place, b";")


def _statement_macros(macros: tuple[MacroText, ...]) -> frozenset[str]:
    """Object-like macros that stand for whole statements: their bodies end in ``;``, ``}`` or such a macro."""
    found: set[str] = set()
    bodies = [(m.name, m.body) for m in macros if m.parameters is None and m.body]
    while True:
        more = {
            name
            for name, body in bodies
            if name not in found and (body.endswith((";", "}")) or body.split()[-1] in found)
        }
        if not more:
            return frozenset(found)
        found |= more


class _Ended:
    """Where calls that got their ``;`` end: the next call may stand right behind one."""

    def __init__(self) -> None:
        self.ends: set[int] = set()


def _statement(
    data: bytes,
    skeleton: bytes,
    start: int,
    opening: int,
    name: bytes,
    macro: MacroText | None,
    repairs: Repairs,
    ended: _Ended,
) -> None:
    before = start
    while before > 0 and skeleton[before - 1] in b" \t\r\n":
        before -= 1
    if before > 0 and skeleton[before - 1] not in b";{}:" and before not in ended.ends:
        return
    closing = closing_bracket(skeleton, opening)
    if closing is None or closing + 1 >= len(skeleton):
        return
    following = _NEXT.match(skeleton, closing + 1)
    if following is None:
        return
    word, sign = following[1], following[2]
    if sign == b"{" and len(name) >= 5 and _opens_a_loop(name, macro):
        repairs.put(start, b"while".ljust(len(name)))
        return
    if word in _NOT_AFTER_A_STATEMENT or (sign is not None and sign not in b"}~[*"):
        return
    if b"\n" not in skeleton[closing + 1 : following.end()]:
        return
    place = _room_for_semicolon(data, closing + 1)
    if place is not None:
        repairs.put(place, b";")
        ended.ends.add(closing + 1)


def _opens_a_loop(name: bytes, macro: MacroText | None) -> bool:
    return _LOOP_BODY.match(macro.body) is not None if macro is not None else _LOOP_NAME.fullmatch(name) is not None


def _types_among_arguments(skeleton: bytes, opening: int, repairs: Repairs) -> None:
    closing = closing_bracket(skeleton, opening)
    if closing is None or _TYPE_WORD.search(skeleton, opening, closing) is None:
        return
    for start, end in split_at_commas(skeleton, opening + 1, closing):
        if _TYPE_ARGUMENT.fullmatch(skeleton, start, end):
            repairs.put(start, b"0".rjust(end - start))


def _room_for_semicolon(data: bytes, at: int) -> int | None:
    """Where a ``;`` can be written over white space right behind a call, without eating a directive's line."""
    if data[at : at + 1] in (b" ", b"\t"):
        return at
    if data[at : at + 2] == b"\r\n":
        return at
    if data[at : at + 1] != b"\n":
        return None
    following = data[at + 1 : at + 2]
    if following in (b" ", b"\t"):
        return None if data[at + 1 : at + 200].lstrip(b" \t").startswith(b"#") else at + 1
    if following == b"\r":
        return at + 1
    return None if following == b"#" else at
