"""Names of types that a file gives to other types, as far as its text alone tells."""

from __future__ import annotations

import re

from optiml_core.source.blanking import Blanked
from optiml_core.source.declarations import squeeze

_TYPEDEF = re.compile(
    rb"typedef\s+((?:const\s+|unsigned\s+|signed\s+|long\s+|struct\s+|short\s+)*[\w:]+(?:\s+(?:int|long|const))*[\s*]*[\s*])(\w+)\s*;"
)
_USING = re.compile(rb"using\s+(\w+)\s*=\s*([\w:\s*]+);")
_TYPE_TEXT = re.compile(
    r"(?:const\s+)?[A-Za-z_][\w:]*(?:\s+(?:int|long|char|short|double))*(?:\s*\*)?(?:\s*(?:__restrict__|const))*"
)


def alias_map(repaired: Blanked) -> dict[str, str]:
    """Names of the file's typedefs, aliases and type macros, and what each stands for."""
    aliases: dict[str, str] = {}
    for macro in repaired.macros:
        if macro.parameters is None and macro.name not in aliases and _TYPE_TEXT.fullmatch(macro.body):
            aliases[macro.name] = macro.body
    for match in _TYPEDEF.finditer(repaired.skeleton):
        aliases.setdefault(match[2].decode(), squeeze(match[1].decode("utf-8", "replace")))
    for match in _USING.finditer(repaired.skeleton):
        aliases.setdefault(match[1].decode(), squeeze(match[2].decode("utf-8", "replace")))
    return {name: target for name, target in aliases.items() if name != target}
