"""By-value arguments as the bytes that the kernel's own parameter type holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from optiml_core.device.emulator import build_entry
from optiml_core.device.emulator.build_entry import ParameterRow
from optiml_core.records import ElementType, Failure, ScalarArgument


def _up(value: int, to: int) -> int:
    return (value + to - 1) // to * to


def _bad(message: str) -> Failure:
    return Failure("bad-input", message)


def scalar_bytes(argument: ScalarArgument, row: ParameterRow) -> bytes | Failure:
    """``argument``'s value as the kernel's own parameter type holds it, which ``row`` describes."""
    value = argument.value
    if row.sort == build_entry.POINTER:
        if value == 0:
            return bytes(row.size)  # a null pointer
        return _bad(f"`{argument.name}` is a number, but the kernel's parameter is a pointer")
    if not isinstance(value, Mapping):
        if row.sort == build_entry.BOOLEAN:
            return bytes([bool(value)])
        if row.sort in (build_entry.SIGNED, build_entry.UNSIGNED):
            return (int(value) & ((1 << 8 * row.size) - 1)).to_bytes(row.size, "little")
        if row.sort == build_entry.FLOATING:
            dtype = np.dtype({4: "<f4", 8: "<f8"}.get(row.size, "longdouble"))
            with np.errstate(over="ignore"):
                return bytes(np.array(value).astype(dtype).tobytes())
    packed = pack_value(argument.element, value, widened=row.size != argument.element.size)
    if isinstance(packed, Failure):
        return packed
    if len(packed) > row.size:
        return _bad(f"`{argument.name}` has {row.size} bytes in the kernel, its value {len(packed)}")
    return packed.ljust(row.size, b"\0")


_WIDER = {"float32": "float64", "float16": "float64", "bfloat16": "float64", "float64": "longdouble"}


def _scalar_dtype(name: str, widened: bool) -> np.dtype[Any]:
    name = _WIDER.get(name, name) if widened else name
    if name.startswith(("bfloat16", "float8")):
        import ml_dtypes

        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small
    return np.dtype(name)


def _shape_of(element: ElementType, widened: bool) -> tuple[int, int]:
    """Size and alignment of ``element``, as the widened build has it if ``widened``."""
    if not widened:
        return element.size, element.alignment
    if element.fields:
        size, alignment = 0, 1
        for member in element.fields:
            each, own = _shape_of(member.element, widened)
            size, alignment = _up(size, own) + each * member.length, max(alignment, own)
        return _up(size, alignment), alignment
    dtype = _scalar_dtype(element.dtype, widened)
    size = dtype.itemsize * element.lanes
    return size, min(16, size) if element.lanes in (2, 4) else dtype.alignment


def pack_value(element: ElementType, value: Any, widened: bool) -> bytes | Failure:
    """``value`` as ``element``'s bytes: a number, a mapping of members, or x, y, z, w of a vector type."""
    size, _ = _shape_of(element, widened)
    if element.fields:
        if not isinstance(value, Mapping):
            return _bad(f"a value of {element.spelling} needs its members by name")
        unknown = set(value) - {member.name for member in element.fields}
        if unknown:
            return _bad(f"{element.spelling} has no member {sorted(unknown)[0]}")
        body, position = bytearray(size), 0
        for member in element.fields:
            each, alignment = _shape_of(member.element, widened)
            position = _up(position, alignment) if widened else member.offset
            given = value.get(member.name, 0)
            items = list(given) if isinstance(given, list | tuple | np.ndarray) else [given] * member.length
            if len(items) != member.length:
                return _bad(f"{element.spelling}.{member.name} has {member.length} elements")
            for item in items:
                packed = pack_value(member.element, item if not member.element.fields or item else {}, widened)
                if isinstance(packed, Failure):
                    return packed
                body[position : position + each] = packed
                position += each
        return bytes(body)
    if not element.dtype:
        return _bad(f"the layout of {element.spelling} is not known")
    lanes = (
        [value.get(name, 0) for name in "xyzw"[: element.lanes]]
        if isinstance(value, Mapping)
        else [value] * element.lanes
    )
    dtype = _scalar_dtype(element.dtype, widened)
    with np.errstate(over="ignore"):
        return np.array(lanes).astype(dtype).tobytes().ljust(size, b"\0")
