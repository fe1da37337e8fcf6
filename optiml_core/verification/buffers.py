"""Buffers as arrays: scalar members, bit patterns, poison, inputs moved by one unit in the last place.

Every function returns new arrays; contents that were given are never written to, because the original's runs,
the shadow's and the candidate's start from the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from attrs import evolve

from optiml_core.device.protocol import Array, Contents

BoolMask = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]  # where arithmetic is done on whatever type a buffer has

# Half the distance from 1 to the next number: the largest relative error of rounding to nearest.
UNIT_ROUNDOFF: Mapping[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
}

# The smallest positive normal number: below it relative precision is lost by the format, not by the kernel.
SMALLEST_NORMAL: Mapping[str, float] = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
    "float8_e4m3fn": 2.0**-6,
    "float8_e5m2": 2.0**-14,
}

_EXTENDED = tuple(np.dtype(kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))

# 0xFF is NaN in every floating type and -1 in the signed integers. 0x3F is a plain number near one in the floating
# types (0.75 as float, 1.8 as half): whatever is added to it shows, which it would not in a large number or in NaN.
POISON_PATTERNS: tuple[int, int] = (0xFF, 0x3F)


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """True for the floating types, which have an error budget; everything else is compared exactly."""
    return dtype.name in UNIT_ROUNDOFF


def scalar_members(name: str, array: AnyArray) -> tuple[tuple[str, Array], ...]:
    """Splits a buffer into flat arrays of one scalar type each, named ``name`` or ``name.member``.

    Padding bytes of structs belong to no member: they are never compared.
    """
    if array.dtype.fields is None:
        return ((name, np.ascontiguousarray(array).reshape(-1)),)
    members: list[tuple[str, Array]] = []
    for member in array.dtype.names or ():
        members.extend(scalar_members(f"{name}.{member}", array[member]))
    return tuple(members)


def bit_patterns(array: Array) -> Array:
    """The elements' bits as unsigned integers, shape ``(length,)`` (``(length, bytes)`` for odd widths)."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.itemsize in (1, 2, 4, 8):
        return flat.view(f"u{flat.dtype.itemsize}")
    return flat.view(np.uint8).reshape(flat.size, flat.dtype.itemsize)


def bits_differ(left: Array, right: Array) -> BoolMask:
    """True where two flat arrays of one dtype differ in any bit; shape ``(length,)``."""
    different: BoolMask = np.asarray(bit_patterns(left) != bit_patterns(right))
    return different if different.ndim == 1 else np.asarray(different.any(axis=1))


def filled(array: Array, pattern: int) -> Array:
    """An array of the same dtype and shape whose bytes are all ``pattern`` (for bool its lowest bit)."""
    raw = np.full(array.nbytes, pattern & 1 if array.dtype == np.bool_ else pattern, np.uint8)
    return raw.view(array.dtype).reshape(array.shape)


def poisoned(contents: Contents, names: Iterable[str], pattern: int) -> Contents:
    """The contents with every buffer of ``names`` filled by ``pattern``."""
    chosen = set(names)
    return evolve(
        contents,
        buffers={name: filled(array, pattern) if name in chosen else array for name, array in contents.buffers.items()},
    )


def moved_by_one_unit(array: AnyArray, random: np.random.Generator) -> AnyArray:
    """Every finite non-zero floating value moved to its neighbour, up or down at random.

    Zeros stay: they are often structure (padding, masks), and their neighbour is a denormal number, which is no
    small change to a kernel that tests for zero.
    """
    if array.dtype.fields is not None:
        moved = array.copy()
        for name in array.dtype.names or ():
            moved[name] = moved_by_one_unit(array[name], random)
        return moved
    if not is_inexact(array.dtype):
        return array
    up = random.random(array.shape) < 0.5
    with np.errstate(all="ignore"):
        towards = np.where(up, np.inf, -np.inf).astype(array.dtype)
        neighbour = _nextafter(array, towards)
        keep = (array == 0) | ~np.isfinite(array) | ~np.isfinite(neighbour) | (neighbour == 0)
    return np.where(keep, array, neighbour).astype(array.dtype)


def _nextafter(array: AnyArray, towards: AnyArray) -> AnyArray:
    """``np.nextafter``, also for the types of ml_dtypes: integer steps on the sign-magnitude bit pattern."""
    if array.dtype.name in ("float16", "float32", "float64"):
        return np.asarray(np.nextafter(array, towards))
    bits = array.view(f"u{array.dtype.itemsize}")
    negative = np.signbit(array.astype(np.float32))
    away_from_zero = (towards.astype(np.float32) > 0) != negative
    return np.where(away_from_zero, bits + 1, bits - 1).astype(bits.dtype).view(array.dtype)


def perturbed(contents: Contents, names: Iterable[str], random: np.random.Generator) -> Contents:
    """The contents with every floating value of the buffers ``names`` moved by one unit in the last place."""
    chosen = set(names)
    return evolve(
        contents,
        buffers={
            name: moved_by_one_unit(array, random) if name in chosen else array
            for name, array in contents.buffers.items()
        },
    )


def as_real(array: Array, wide: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """The values as float64 (or long double), also for ml_dtypes' types."""
    return array.astype(np.float32).astype(wide) if array.dtype in _EXTENDED else array.astype(wide)
