"""The variables of a compiled candidate: which are shared arrays, which are globals, and what they are called."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from optiml_core.device.emulator import build_elf as elf_tables
from optiml_core.device.emulator.build_elf import Elf
from optiml_core.device.emulator.build_entry import TABLE_SYMBOL

_COMPILERS_OWN = ("_ZTI", "_ZTS", "_ZGV", "_DYNAMIC", "_GLOBAL_", "__GNU", ".L")


@frozen
class Variable:
    """A range of the loaded object: ``offset`` from its base and ``size``, in bytes.

    ``name`` is qualified with ``::``; ``""`` for unnamed constants such as string literals.
    """

    name: str
    space: Literal["shared", "module"]
    offset: int
    size: int
    writable: bool


def _length_prefixed(text: str) -> list[str]:
    names = []
    while match := re.match(r"(\d+)", text):
        start, length = match.end(), int(match[1])
        names.append(text[start : start + length])
        text = text[start + length :]
    return names


def source_name(symbol: str) -> str:
    """The qualified name of a variable from its mangled name (Itanium C++ ABI); the symbol itself where unmangled.

    Local statics give the variable's own name, qualified by nothing.
    """
    if not symbol.startswith("_Z"):
        return symbol
    text = symbol[2:]
    if text.startswith("Z"):
        match = re.search(r"E(?:L?)(\d+)(\w+?)(?:_\d+|__\d+_)?$", text)
        while match and len(match[2]) < int(match[1]):
            return match[2]
        return match[2][: int(match[1])] if match else symbol
    nested = re.match(r"N(?:K|L)*((?:L?\d+[A-Za-z_]\w*?)+)E", text)
    body = nested[1] if nested else text
    names = _length_prefixed(re.sub(r"^L", "", body))
    names = [name for name in names if not name.startswith("_GLOBAL__N_")]
    return "::".join(names) if names else symbol


def function_starts(elf: Elf) -> npt.NDArray[np.uint32]:
    """Offsets of the object's own functions: what it may call through a pointer."""
    return np.array(sorted({s.value for s in elf.symbols if s.kind == elf_tables.FUNCTION and s.section}), np.uint32)


def variables_of(elf: Elf) -> tuple[Variable, ...]:
    """Every variable of ``elf``, in the order of addresses, without overlaps."""
    found: dict[int, Variable] = {}
    for symbol in elf.symbols:
        if (
            symbol.kind != elf_tables.OBJECT
            or not symbol.size
            or symbol.section >= len(elf.sections)
            or not symbol.section
        ):
            continue
        section = elf.sections[symbol.section]
        if (
            not section.flags & elf_tables.ALLOCATED
            or symbol.name == TABLE_SYMBOL
            or symbol.name.startswith(_COMPILERS_OWN)
        ):
            continue
        writable = bool(section.flags & elf_tables.WRITE) and not section.name.startswith(".data.rel.ro")
        shared = symbol.name.startswith("_ZZ") and writable
        known = found.get(symbol.value)
        if known is None or known.size < symbol.size:
            found[symbol.value] = Variable(
                source_name(symbol.name), "shared" if shared else "module", symbol.value, symbol.size, writable
            )
    result: list[Variable] = []
    for variable in sorted(found.values(), key=lambda v: v.offset):
        if not result or variable.offset >= result[-1].offset + result[-1].size:
            result.append(variable)
    return tuple(sorted([*result, *_unnamed_constants(elf, result)], key=lambda v: v.offset))


def _unnamed_constants(elf: Elf, named: list[Variable]) -> list[Variable]:
    """What lies between the named variables of read-only sections: string literals and tables without a name."""
    table = next((s for s in elf.symbols if s.name == TABLE_SYMBOL), None)
    taken = [(v.offset, v.size) for v in named] + ([(table.value, table.size)] if table else [])
    gaps = []
    for section in elf.sections:
        if not section.name.startswith(".rodata") or not section.flags & elf_tables.ALLOCATED:
            continue
        position, end = section.address, section.address + section.size
        for offset, size in sorted(t for t in taken if section.address <= t[0] < end):
            if offset > position:
                gaps.append(Variable("", "module", position, offset - position, False))
            position = max(position, offset + size)
        if position < end:
            gaps.append(Variable("", "module", position, end - position, False))
    return gaps
