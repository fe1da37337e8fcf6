"""Where lanes meet again after a loop inside a loop.

Lanes of a warp stop at their accesses, and the one whose access stands first in the code goes first. That is enough for
them to meet behind a branch, and not behind an inner loop: a lane that leaves it early comes to the same access in the
next turn of the outer loop, and would be counted with lanes that are still in the turn before. A device joins them
again at the end of the inner loop; so each such loop of a kernel gets a stop behind it, and each loop of a device
function, which may be called from one.
"""

from __future__ import annotations

from optiml_core.device.emulator.tokens import Token, closing

MEET = "optiml_device_meet();"
_LOOPS = ("for", "while", "do")
_TYPES = frozenset({"int", "unsigned", "long", "short", "size_t", "uint32_t", "int32_t", "auto", "const", "char"})
_LEAVES = ("break", "continue", "return", "goto")


def meeting_points(text: str, found: list[Token], scopes: list[bool]) -> list[tuple[int, int, str]]:
    """Insertions (start, end, text) into ``text``: braces around each inner loop, with a stop behind it.

    ``found``: tokens without directives; ``scopes``: which of them are outside of every function.
    """
    changes: list[tuple[int, int, str]] = []
    seen: set[int] = set()
    for index, token in enumerate(found):
        if token.is_name("__global__", "__device__") and scopes[index]:
            body = _body(found, index)
            # What may run while compiling can call nothing that only the runtime has.
            if body is None or _is_constant(found, index, body[0]) or body[0] in seen:
                continue
            seen.add(body[0])
            _in_range(text, found, body[0] + 1, body[1], token.is_name("__device__"), changes)
    return changes


def _is_constant(found: list[Token], index: int, body: int) -> bool:
    """Whether the declaration around ``index``, whose body begins at ``body``, is of a constexpr function."""
    start = index
    while start and found[start - 1].spelling not in (";", "}", "{"):
        start -= 1
    return any(word.is_name("constexpr", "consteval") for word in found[start:body])


def _body(found: list[Token], index: int) -> tuple[int, int] | None:
    """Token indexes of the braces of the function whose qualifier stands at ``index``; None for a declaration."""
    while index < len(found):
        spelling = found[index].spelling
        if spelling == "(":
            index = closing(found, index)
        elif spelling == ";":
            return None
        elif spelling == "{":
            end = closing(found, index)
            return (index, end) if end < len(found) else None
        index += 1
    return None


def _in_range(
    text: str, found: list[Token], start: int, end: int, inside: bool, changes: list[tuple[int, int, str]]
) -> None:
    """The loops among tokens ``start`` to ``end``; ``inside``: they are in another loop's body."""
    index = start
    while index < end:
        if not found[index].is_name(*_LOOPS):
            index += 1
            continue
        last = _statement_end(found, index)
        if last >= end:
            return  # text that is not understood
        if inside and _needs_one(text, found, index, last):
            changes += [
                (found[index].start, found[index].start, "{ "),
                (found[last].end, found[last].end, f" {MEET} }}"),
            ]
        _in_range(text, found, index + 1, last + 1, True, changes)
        index = last + 1


def _needs_one(text: str, found: list[Token], index: int, last: int) -> bool:
    """Whether lanes may leave the loop in different turns, with accesses in it. A pragma stays in front of its loop."""
    line_start = text.rfind("\n", 0, found[index].start) + 1
    previous_line = text[text.rfind("\n", 0, max(0, line_start - 1)) + 1 : line_start]
    if previous_line.lstrip().startswith("#"):
        return False
    words = found[index : last + 1]
    if not any(word.spelling in ("[", "*", "->") for word in words):
        return False
    if any(word.is_name(*_LEAVES) for word in words):
        return True
    return not _counts_alike(found, index)


def _counts_alike(found: list[Token], index: int) -> bool:
    """``for (int k = 0; k < 32; k += 8)``: nothing but a variable and numbers, so all lanes make the same turns."""
    if not found[index].is_name("for") or found[index + 1].spelling != "(":
        return False
    header = found[index + 1 : closing(found, index + 1)]
    return len({word.spelling for word in header if word.kind == "name" and word.spelling not in _TYPES}) == 1


def _statement_end(found: list[Token], index: int) -> int:
    """Index of the last token of the statement that begins at ``index``; the number of tokens if it has no end."""
    count = len(found)
    if index >= count:
        return count
    token = found[index]
    if token.spelling == "{":
        return closing(found, index)
    if token.is_name("for", "while", "if", "switch"):
        opening = index + 1
        if opening < count and found[opening].is_name("constexpr"):
            opening += 1
        if opening >= count or found[opening].spelling != "(":
            return count
        end = _statement_end(found, closing(found, opening) + 1)
        if token.is_name("if") and end + 1 < count and found[end + 1].is_name("else"):
            return _statement_end(found, end + 2)
        return end
    if token.is_name("do"):
        end = _statement_end(found, index + 1)
        if end + 2 >= count or not found[end + 1].is_name("while") or found[end + 2].spelling != "(":
            return count
        return closing(found, end + 2) + 1
    while index < count and found[index].spelling != ";":
        index = closing(found, index) if found[index].spelling in ("(", "[", "{") else index
        index += 1
    return index
