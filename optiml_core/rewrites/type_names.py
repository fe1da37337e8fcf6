"""What a type's name stands for: typedefs and macros written out to the builtin type behind them."""

from __future__ import annotations

from optiml_core.records import Kernel
from optiml_core.source import TranslationUnit, element_type_of

_DROPPED = frozenset({
    "const", "volatile", "__restrict__", "__restrict", "static", "__shared__", "register", "constexpr", "extern",
})  # fmt: skip


def bare_type(text: str) -> str:
    """``const float* __restrict__`` becomes ``float``: the pointee or value type without qualifiers."""
    return " ".join(word for word in text.replace("*", " ").replace("&", " ").split() if word not in _DROPPED)


def resolved_type(unit: TranslationUnit, text: str) -> str:
    """The builtin type that a type's text stands for through typedefs and macros, else the bare text."""
    name = bare_type(text)
    aliases = {alias.name: alias.target for alias in unit.type_aliases}
    macros = {macro.name: macro.body for macro in unit.macros if macro.parameters is None}
    for _ in range(8):
        known = element_type_of(name)
        if known is not None:
            return known.spelling
        target = aliases.get(name) or macros.get(name)
        if target is None or "*" in target:
            return name
        name = bare_type(target)
    return name


def is_template_type(kernel: Kernel, name: str) -> bool:
    return any(one.name == name and one.kind in ("typename", "class") for one in kernel.template_parameters)
