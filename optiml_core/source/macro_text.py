"""The ``#define`` directives of a file, as far as reading its code needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from optiml_core.source.lexical import Directive


class MacroText(NamedTuple):
    """A ``#define``: ``parameters`` is None for an object-like macro."""

    name: str
    parameters: tuple[str, ...] | None
    body: str
    start: int
    end: int


_DEFINE = re.compile(r"([A-Za-z_]\w*)(\(([^)]*)\))?\s*(.*)", re.DOTALL)


def read_macros(directives: Iterable[Directive]) -> tuple[MacroText, ...]:
    """Every ``#define``, in order."""
    found: list[MacroText] = []
    for directive in directives:
        match = _DEFINE.match(directive.text) if directive.word == "define" else None
        if match is None:
            continue
        parameters = None
        if match[2] is not None:
            parameters = tuple(p.strip() for p in match[3].split(",") if p.strip())
        found.append(MacroText(match[1], parameters, match[4].strip(), directive.start, directive.end))
    return tuple(found)
