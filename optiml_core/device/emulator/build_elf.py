"""Reads what the fence and the launch need from an ELF object: sections, symbols, dynamic entries.

The layouts are those of the System V ABI (ELF-64, little-endian). A file that is not one is a ValueError.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from attrs import frozen

_SECTION = struct.Struct("<IIQQQQIIQQ")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)

SYMBOL_TABLE, DYNAMIC_SYMBOLS, NO_BITS = 2, 11, 8
WRITE, ALLOCATED, EXECUTE, THREAD_LOCAL = 1, 2, 4, 0x400
LOAD_SEGMENT, DYNAMIC_SEGMENT = 1, 2
OBJECT, FUNCTION, THREAD_SYMBOL, INDIRECT_FUNCTION = 1, 2, 6, 10
UNDEFINED = 0


@frozen
class Section:
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    alignment: int


@frozen
class Segment:
    kind: int
    flags: int  # 1 execute, 2 write, 4 read
    offset: int
    file_size: int


@frozen
class Symbol:
    name: str
    kind: int
    binding: int  # 0 local, 1 global, 2 weak
    section: int  # index into the sections, UNDEFINED, or 0xfff1 and up
    value: int
    size: int


@frozen
class Elf:
    sections: tuple[Section, ...]
    segments: tuple[Segment, ...]
    symbols: tuple[Symbol, ...]
    dynamic_symbols: tuple[Symbol, ...]
    dynamic: tuple[tuple[int, int], ...]


def _text(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode("utf-8", "surrogateescape")


def _symbols(data: bytes, raw: list[tuple[int, ...]], kind: int) -> tuple[Symbol, ...]:
    for section in raw:
        if section[1] == kind:
            strings = data[raw[section[6]][4] : raw[section[6]][4] + raw[section[6]][5]]
            rows: Any = np.frombuffer(data[section[4] : section[4] + section[5]], _SYMBOL)
            return tuple(
                Symbol(_text(strings, name), info & 15, info >> 4, where, value, size)
                for name, info, _, where, value, size in rows.tolist()[1:]
            )
    return ()


def read_elf(data: bytes) -> Elf:
    """The tables of ``data``. Raises ValueError for anything but a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    try:
        program_offset, section_offset = struct.unpack_from("<QQ", data, 32)
        _, program_count, _, section_count, names_index = struct.unpack_from("<HHHHH", data, 54)
        raw: list[tuple[int, ...]] = [_SECTION.unpack_from(data, section_offset + 64 * i) for i in range(section_count)]
        names = data[raw[names_index][4] : raw[names_index][4] + raw[names_index][5]]
        sections = tuple(Section(_text(names, r[0]), r[1], r[2], r[3], r[4], r[5], r[8]) for r in raw)
        segments = []
        for i in range(program_count):
            kind, flags, offset, _, _, file_size, _, _ = _PROGRAM.unpack_from(data, program_offset + 56 * i)
            segments.append(Segment(kind, flags, offset, file_size))
        dynamic: list[tuple[int, int]] = []
        for segment in segments:
            if segment.kind == DYNAMIC_SEGMENT:
                body = data[segment.offset : segment.offset + segment.file_size]
                dynamic = [struct.unpack_from("<QQ", body, at) for at in range(0, len(body) - 15, 16)]
        return Elf(
            sections,
            tuple(segments),
            _symbols(data, raw, SYMBOL_TABLE),
            _symbols(data, raw, DYNAMIC_SYMBOLS),
            tuple(dynamic),
        )
    except (struct.error, IndexError) as error:
        raise ValueError(f"a broken ELF file: {error}") from error


def bytes_of(data: bytes, elf: Elf, symbol: Symbol) -> bytes:
    """The initial bytes of a data symbol; zeros for one without bytes in the file."""
    section = elf.sections[symbol.section]
    if section.kind == NO_BITS:
        return bytes(symbol.size)
    start = section.offset + symbol.value - section.address
    return data[start : start + symbol.size]
