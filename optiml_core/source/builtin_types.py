"""The element types that CUDA C++ knows by name, with their sizes on every supported platform."""

from __future__ import annotations

import re
from functools import lru_cache

from optiml_core.records import ElementType

# Sizes and alignments: CUDA C++ Programming Guide, "Built-in Vector Types"; Linux x86-64 and aarch64 (LP64).
_SCALARS: dict[str, str] = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned int": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "int8_t": "int8",
    "uint8_t": "uint8",
    "int16_t": "int16",
    "uint16_t": "uint16",
    "int32_t": "int32",
    "uint32_t": "uint32",
    "int64_t": "int64",
    "uint64_t": "uint64",
    "size_t": "uint64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "intptr_t": "int64",
    "uintptr_t": "uint64",
    "clock_t": "int64",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
    "unsigned": "uint32",
    "signed": "int32",
    "u_char": "uint8",
    "u_int": "uint32",
    "cudaTextureObject_t": "uint64",
    "cudaSurfaceObject_t": "uint64",
}

_SIZES: dict[str, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}

_VECTOR_BASES: dict[str, str] = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "longlong": "int64",
    "ulonglong": "uint64",
    "float": "float32",
    "double": "float64",
}

_PACKED_PAIRS: dict[str, tuple[str, int]] = {
    "half2": ("float16", 2),
    "__half2": ("float16", 2),
    "__nv_bfloat162": ("bfloat16", 2),
    "nv_bfloat162": ("bfloat16", 2),
    "__nv_fp8x2_e4m3": ("float8_e4m3fn", 2),
    "__nv_fp8x4_e4m3": ("float8_e4m3fn", 4),
    "__nv_fp8x2_e5m2": ("float8_e5m2", 2),
    "__nv_fp8x4_e5m2": ("float8_e5m2", 4),
    "cuComplex": ("float32", 2),
    "cuFloatComplex": ("float32", 2),
    "cufftComplex": ("float32", 2),
    "cuDoubleComplex": ("float64", 2),
    "cufftDoubleComplex": ("float64", 2),
    "cufftReal": ("float32", 1),
    "cufftDoubleReal": ("float64", 1),
}

_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|float|double)([1-4])(_16a|_32a)?")
_SPECIFIERS = frozenset({"unsigned", "signed", "int", "long", "short", "char", "double", "float"})
_IGNORED = frozenset({"const", "volatile", "struct", "typename", "register", "static", "constexpr", "mutable"})


def _vector_alignment(lanes: int, size: int, sixteen: bool) -> int:
    """Three lanes align like one; four lanes of 8 bytes to 16 (to 32 only for the ``_32a`` types)."""
    if lanes == 3:
        return size
    return min(lanes * size, 16 if sixteen else 32)


def canonical_spelling(spelling: str) -> str:
    """A builtin type's words in one order: ``"long unsigned int"`` becomes ``"unsigned long"``."""
    words = [w for w in spelling.replace("std::", " ").replace("::", " ").split() if w not in _IGNORED]
    if not words or any(w not in _SPECIFIERS for w in words):
        return " ".join(words)
    sign = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return "unsigned char" if sign else ("signed char" if "signed" in words else "char")
    if "short" in words:
        return f"{sign}short"
    if "double" in words or "float" in words:
        return "long double" if "long" in words else ("double" if "double" in words else "float")
    longs = words.count("long")
    return sign + ("int" if longs == 0 else " ".join(["long"] * min(longs, 2)))


@lru_cache(maxsize=1024)
def element_type_of(spelling: str) -> ElementType | None:
    """The element type of a builtin spelling (``"const float"``, ``"unsigned long long"``, ``"float4"``,
    ``"__half2"``), or None if it is no builtin type of CUDA C++ (a typedef, a struct, a template parameter).

    Qualifiers, ``std::`` and a leading ``::`` are ignored. Pointers and references give None: pass the pointee.
    """
    name = canonical_spelling(spelling)
    dtype = _SCALARS.get(name)
    if dtype is not None:
        size = _SIZES[dtype]
        return ElementType(name, dtype, size, size)
    pair = _PACKED_PAIRS.get(name)
    if pair is not None:
        dtype, lanes = pair
        size = _SIZES[dtype]
        return ElementType(name, dtype, lanes * size, lanes * size, lanes)
    if name == "dim3":
        return ElementType(name, "uint32", 12, 4, 3)
    vector = _VECTOR.fullmatch(name)
    if vector is None:
        return None
    dtype, lanes = _VECTOR_BASES[vector[1]], int(vector[2])
    size = _SIZES[dtype]
    return ElementType(name, dtype, lanes * size, _vector_alignment(lanes, size, vector[3] != "_32a"), lanes)
