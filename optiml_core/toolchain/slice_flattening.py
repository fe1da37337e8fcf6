"""A device slice as one text: the project's headers put where they are included."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import define, field

_LINE = re.compile(r"^[ \t]*#[ \t]*(?:(if|ifdef|ifndef|endif)\b|include \"(optiml_\d+_[\w.]+)\"$)", re.MULTILINE)
_PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b.*$", re.MULTILINE)
_GUARD = re.compile(
    r"\s*#[ \t]*if(?:ndef[ \t]+(\w+)|[ \t]+!defined[ \t]*\(?(\w+)\)?)[ \t\r]*\n\s*#[ \t]*define[ \t]+(?:\1|\2)\b"
)
_LARGEST = 4 << 20  # characters


@define
class _State:
    headers: Mapping[str, tuple[str, str]]
    surely_included: set[str] = field(factory=set)
    length: int = 0


def flattened(text: str, path: str, headers: Mapping[str, tuple[str, str]]) -> str:
    """``headers``: name in the slice -> (path, text). Includes become the texts, between ``#line`` directives.

    A header that is to be included once (``#pragma once`` or a guard) and surely was is not repeated; where that
    depends on a condition it is repeated under a guard. A header without either is repeated as often as it is included,
    up to 4 Mi characters in all; it never includes itself.
    """
    return _flattened(text, path, _State(headers), (), True, 0)


def _flattened(text: str, path: str, state: _State, open_headers: tuple[str, ...], surely: bool, depth: int) -> str:
    """``surely``: no condition stands around this text. ``depth``: conditionals of its own that do not count."""
    pieces = [f'#line 1 "{_quotable(path)}"\n']
    at = conditions = 0
    for found in _LINE.finditer(text):
        if found[1] is not None:
            conditions += -1 if found[1] == "endif" else 1
            continue
        pieces.append(text[at : found.start()])
        at = found.end()
        name = found[2]
        header_path, header = state.headers[name]
        if name in open_headers or name in state.surely_included or state.length > _LARGEST:
            continue
        state.length += len(header)
        once = _PRAGMA_ONCE.search(header) is not None
        guarded = _GUARD.match(header) is not None
        surely_here = surely and conditions <= depth
        body = _flattened(
            _PRAGMA_ONCE.sub("", header), header_path, state, (*open_headers, name), surely_here, 1 if guarded else 0
        )
        if once:
            mark = f"OPTIML_ONCE_{name.replace('.', '_').upper()}"
            body = f"#ifndef {mark}\n#define {mark}\n{body}\n#endif"
        if (once or guarded) and surely_here:
            state.surely_included.add(name)
        pieces.append(body)
        pieces.append(f'\n#line {text.count(chr(10), 0, at) + 1} "{_quotable(path)}"')
    pieces.append(text[at:])
    return "".join(pieces)


def _quotable(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
