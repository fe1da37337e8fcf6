"""One call of a function-like macro of the file, expanded by text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from optiml_core.source.translation_unit import Macro

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|.', re.DOTALL)
LONGEST_EXPANSION = 2000  # characters


def expand_call(macro: Macro, arguments: Sequence[str]) -> str | None:
    """The macro's body with its parameters replaced by the arguments' texts, or None where that is not
    simple (another number of arguments, ``#``, ``##``, variadic, several statements)."""
    if macro.parameters is None or len(macro.parameters) != len(arguments):
        return None
    if "#" in macro.body or "..." in macro.parameters or ";" in macro.body:
        return None
    values = dict(zip(macro.parameters, arguments, strict=True))
    expanded = "".join(values.get(token, token) for token in _TOKEN.findall(macro.body))
    return expanded if len(expanded) <= LONGEST_EXPANSION else None
