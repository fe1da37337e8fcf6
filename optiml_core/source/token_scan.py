"""Kernel definitions by tokens alone: works whatever the grammar makes of the file.

It finds every ``__global__`` that defines a function, also where braces do not balance, and is both
the fallback of the parser and what its result is compared with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from optiml_core.source.blanking import Blanked
from optiml_core.source.lexical import Brace, LexicalScan, closing_bracket
from optiml_core.source.repairs import whole_word


class NamespaceTokens(NamedTuple):
    """A namespace: its names (``a::b`` has two, an anonymous one none) and the offsets of its braces."""

    names: tuple[str, ...]
    open: int
    close: int


class KernelTokens(NamedTuple):
    """Where the parts of one kernel definition stand. ``body_end`` is behind the closing brace, or
    where the body must have ended when ``closed`` is false."""

    start: int  # of the template header or the first qualifier
    global_at: int
    name_start: int
    name_end: int  # behind a specialisation's template arguments
    parameters_open: int
    parameters_close: int
    body_open: int
    body_end: int
    closed: bool


_NAME = re.compile(rb"([A-Za-z_][\w]*(?:\s*::\s*[A-Za-z_]\w*)*)(\s*<[^;{}()]*>)?\s*\Z")
_BOUNDARY = re.compile(rb"[;{}]")
_AFTER_PARAMETERS = re.compile(rb"\s*(?:noexcept|try|const|->\s*void|requires[^{;]*)?\s*")
_TOP_LEVEL_CLOSE = re.compile(rb"^\}", re.MULTILINE)
_NOT_A_NAME = frozenset({b"if", b"for", b"while", b"switch", b"return", b"sizeof", b"decltype", b"noexcept"})


_NAMESPACE = re.compile(rb"namespace(?:\s+([A-Za-z_][\w:\s]*?))?\s*\{")


def find_namespaces(scan: LexicalScan) -> tuple[NamespaceTokens, ...]:
    """Every namespace with its braces, in order; one that never closes reaches to the end of the file."""
    opened = {m.end() - 1: m for m in _NAMESPACE.finditer(scan.skeleton) if whole_word(scan.skeleton, m.start())}
    if not opened:
        return ()
    found: list[NamespaceTokens] = []
    stack: list[int] = []
    depths: list[tuple[int, int | None]] = []  # stack depth at each ``#if``, and at the end of its first branch
    for event in scan.events:
        if event.kind == "if":
            depths.append((len(stack), None))
        elif event.kind == "else" and depths:
            depths[-1] = (depths[-1][0], len(stack))
        elif event.kind == "endif" and depths:
            depths.pop()
        elif event.kind == "{":
            stack.append(event.at)
        elif event.kind == "}" and stack and not (depths and depths[-1][1] is not None):
            start = stack.pop()
            if start in opened:
                found.append(_namespace(opened[start], event.at))
    found.extend(_namespace(opened[start], len(scan.skeleton)) for start in stack if start in opened)
    return tuple(sorted(found, key=lambda n: n.open))


def _namespace(match: re.Match[bytes], close: int) -> NamespaceTokens:
    written = (match[1] or b"").decode("utf-8", "replace")
    names = tuple(n for n in written.replace("inline ", " ").replace(" ", "").split("::") if n)
    return NamespaceTokens(names, match.end() - 1, close)


def find_kernels(blanked: Blanked, scan: LexicalScan) -> tuple[KernelTokens, ...]:
    """Every kernel definition in the order of the file."""
    skeleton = blanked.skeleton
    found: list[KernelTokens] = []
    heads = [h for at in blanked.global_words if (h := _read_head(skeleton, at)) is not None]
    definitions = [h for h in heads if skeleton[h[5] : h[5] + 1] == b"{"]
    starts = [_declaration_start(skeleton, h[0]) for h in definitions]
    for index, (global_at, name_start, name_end, opening, closing, body_open) in enumerate(definitions):
        if found and global_at < found[-1].body_open:
            continue  # ``__global__`` twice in one signature
        following = starts[index + 1] if index + 1 < len(definitions) else len(skeleton)
        body_end, closed = _body_end(skeleton, scan, body_open, following)
        found.append(
            KernelTokens(starts[index], global_at, name_start, name_end, opening, closing, body_open, body_end, closed)
        )
    return tuple(found)


def _read_head(skeleton: bytes, global_at: int) -> tuple[int, int, int, int, int, int] | None:
    """From ``__global__`` to the character behind the parameter list, or None if this is no function."""
    at = global_at
    while True:
        opening = skeleton.find(b"(", at)
        if opening < 0:
            return None
        stop = _BOUNDARY.search(skeleton, global_at, opening)
        if stop is not None:
            return None
        name = _NAME.search(skeleton, max(global_at, opening - 512), opening)
        closing = closing_bracket(skeleton, opening)
        if closing is None:
            # The parameter list itself is not closed (yet): nothing sensible can be said.
            return None
        if name is None or name[1] in _NOT_A_NAME:
            at = closing + 1
            continue
        after = _AFTER_PARAMETERS.match(skeleton, closing + 1)
        body_open = after.end() if after else closing + 1
        following = skeleton[body_open : body_open + 1]
        if following == b"(":
            # ``MACRO(name)(parameters)``, or an attribute macro with arguments before the name.
            second = closing_bracket(skeleton, body_open)
            if second is None:
                return None
            behind = _AFTER_PARAMETERS.match(skeleton, second + 1)
            end = behind.end() if behind else second + 1
            return global_at, name.start(1), closing + 1, body_open, second, end
        if following not in (b"{", b";", b"") and re.match(rb"[A-Za-z_]", following):
            at = closing + 1  # it was an attribute macro: LAUNCH_BOUNDS(256) name(...)
            continue
        return global_at, name.start(1), name.end(2) if name[2] else name.end(1), opening, closing, body_open


def _declaration_start(skeleton: bytes, global_at: int) -> int:
    """Back over qualifiers and template header to where the definition begins."""
    start = max(skeleton.rfind(sign, 0, global_at) for sign in (b";", b"{", b"}")) + 1
    # A directive between the boundary and the definition is blank here, so this skips it, too.
    while start < global_at and skeleton[start : start + 1].isspace():
        start += 1
    return start


def _body_end(skeleton: bytes, scan: LexicalScan, body_open: int, following: int) -> tuple[int, bool]:
    """The end of the body that opens at ``body_open``; ``following`` is where the next kernel begins.

    Braces are counted along the first branch of each conditional, since branches often open the
    same block twice. A kernel cannot contain another: a body that would swallow the next kernel's
    head is unclosed, and so is one that never closes.
    """
    depth = 0
    branches: list[tuple[int, int | None]] = []  # depth at the ``#if``; depth at the first branch's end
    for event in _events(scan, body_open, following):
        if event.kind == "if":
            branches.append((depth, None))
        elif event.kind == "else" and branches:
            before, end_of_first = branches[-1]
            branches[-1] = (before, depth if end_of_first is None else end_of_first)
            depth = before
        elif event.kind == "endif" and branches:
            _, end_of_first = branches.pop()
            depth = depth if end_of_first is None else end_of_first
        elif event.kind == "{":
            depth += 1
        elif event.kind == "}":
            depth -= 1
            if depth <= 0 and (not branches or branches[-1][1] is None or branches[-1][0] == 0):
                return event.at + 1, True
    return _end_of_unclosed(skeleton, body_open, following), False


def _events(scan: LexicalScan, start: int, end: int) -> Iterator[Brace]:
    """The braces and branches from ``start``, read piece by piece since a body is short in most cases."""
    while start < end:
        piece = min(end, start + 4096)
        yield from scan.events_between(start, piece)
        start = piece


def _end_of_unclosed(skeleton: bytes, body_open: int, following: int) -> int:
    """A ``}`` in the first column closes a function in nearly all code; else all up to the next kernel."""
    match = _TOP_LEVEL_CLOSE.search(skeleton, body_open, following)
    if match is not None:
        return match.end()
    end = following
    while end > body_open + 1 and skeleton[end - 1 : end].isspace():
        end -= 1
    return end
