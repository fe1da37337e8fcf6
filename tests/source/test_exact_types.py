"""Exact element types by libclang, and those of builtin spellings without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from optiml_core.records import ElementType, Failure, StructField
from optiml_core.source import SourceFile, element_type_of, exact_types, parse


def types_of(text: str, flags: tuple[str, ...] = (), path: str = "k.cu") -> dict[str, tuple[ElementType | None, ...]]:
    found = exact_types(parse(SourceFile(path, text.encode())), flags)
    assert not isinstance(found, Failure)
    return found


FLOAT, INT = ElementType("float", "float32", 4, 4), ElementType("int", "int32", 4, 4)


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [
        ("float", FLOAT),
        ("const float", FLOAT),
        ("long unsigned int", ElementType("unsigned long", "uint64", 8, 8)),
        ("unsigned", ElementType("unsigned int", "uint32", 4, 4)),
        ("long long", ElementType("long long", "int64", 8, 8)),
        ("std::size_t", ElementType("size_t", "uint64", 8, 8)),
        ("char", ElementType("char", "int8", 1, 1)),
        ("bool", ElementType("bool", "bool", 1, 1)),
        ("float4", ElementType("float4", "float32", 16, 16, 4)),
        ("float3", ElementType("float3", "float32", 12, 4, 3)),
        ("double2", ElementType("double2", "float64", 16, 16, 2)),
        ("double4", ElementType("double4", "float64", 32, 16, 4)),
        ("uchar4", ElementType("uchar4", "uint8", 4, 4, 4)),
        ("half", ElementType("half", "float16", 2, 2)),
        ("__half2", ElementType("__half2", "float16", 4, 4, 2)),
        ("__nv_bfloat16", ElementType("__nv_bfloat16", "bfloat16", 2, 2)),
        ("__nv_fp8_e4m3", ElementType("__nv_fp8_e4m3", "float8_e4m3fn", 1, 1)),
        ("real", None),
        ("float*", None),
        ("long double", None),
        ("", None),
    ],
)
def test_builtin_spellings(spelling: str, expected: ElementType | None) -> None:
    assert element_type_of(spelling) == expected


@pytest.mark.parametrize(
    ("declarations", "parameter", "expected"),
    [
        ("", "const float* __restrict__ a", FLOAT),
        ("", "int n", INT),
        ("typedef float real; typedef real number;", "number* a", FLOAT),
        ("using fptr = const float*;", "fptr a", FLOAT),
        ("#define T int\n", "T* a", INT),
        ("#include <cuda_fp16.h>\n", "const half2* a", ElementType("__half2", "float16", 4, 4, 2)),
        ("", "std::uint8_t* a", ElementType("unsigned char", "uint8", 1, 1)),
        ("enum Kind : short { A, B };", "Kind k", ElementType("Kind", "int16", 2, 2)),
        ("struct P { char c; float x, y[2]; };", "P* p",
         ElementType("P", "", 16, 4, 1, (
             StructField("c", ElementType("char", "int8", 1, 1), 0), StructField("x", FLOAT, 4),
             StructField("y", FLOAT, 8, 2)))),
        ("namespace n { struct __align__(16) P { int a; }; }", "const n::P p",
         ElementType("n::P", "", 16, 16, 1, (StructField("a", INT, 0),))),
        ("constexpr int twice(int n) { return 2 * n; }\nstruct P { float a[twice(3)][2]; };", "P* p",
         ElementType("P", "", 48, 4, 1, (StructField("a", FLOAT, 0, 12),))),
        ("template <class T> struct V { T x, y; };", "V<int>* p",
         ElementType("V<int>", "", 8, 4, 1, (StructField("x", INT, 0), StructField("y", INT, 4)))),
        ("struct I { int a; }; struct P { float x; I i[3]; };", "P* p",
         ElementType("P", "", 16, 4, 1, (
             StructField("x", FLOAT, 0),
             StructField("i", ElementType("I", "", 4, 4, 1, (StructField("a", INT, 0),)), 4, 3)))),
        ("", "unknown_type* a", None),
        ("struct P { unknown x; };", "P* p", None),
        ("struct P { float* x; };", "P p", None),
        ("struct B { int a; }; struct P : B { int b; };", "P* p", None),
        ("struct P { int a : 3; };", "P* p", None),
        ("union P { int a; float b; };", "P* p", None),
        ("", "float** a", None),
        ("", "float (&a)[4]", FLOAT),
    ],
)  # fmt: skip
def test_exact_types(declarations: str, parameter: str, expected: ElementType | None) -> None:
    text = f"#include <cuda_runtime.h>\n{declarations}\n__global__ void k({parameter}, double last) {{ broken( }}"
    assert types_of(text) == {"k": (expected, ElementType("double", "float64", 8, 8))}


def test_instantiations_have_their_parameters_substituted() -> None:
    found = types_of(
        """
typedef double real;
template <typename T, int N> struct Pack { T values[N]; };
namespace n {
template <typename T, int N = 2> __global__ void k(const T* a, Pack<T, N> p, int n) {}
}
void host() { n::k<float, 4><<<1, 1>>>(a, p, 1); n::k<real><<<1, 1>>>(a, p, 1); n::k<gone><<<1, 1>>>(a, p, 1); }
"""
    )
    assert found["n::k"] == (None, None, INT)
    pack = ElementType("Pack<float, 4>", "", 16, 4, 1, (StructField("values", FLOAT, 0, 4),))
    assert found["n::k<float, 4>"] == (FLOAT, pack, INT)
    double = found["n::k<real>"][0]
    assert double is not None
    assert double.dtype == "float64"
    assert found["n::k<gone>"] == (None, None, INT)


def test_flags_and_quoted_includes_count(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc/real.h").write_text("#pragma once\n#include <vector>\n#ifdef WIDE\ntypedef double real;\n#else\n"
                                         "typedef float real;\n#endif\n")  # fmt: skip
    text = '#include "real.h"\n__global__ void k(real* a) {}'
    path = str(tmp_path / "k.cu")
    folder = f"-I{tmp_path / 'inc'}"
    assert types_of(text, (), path)["k"] == (None,)
    assert types_of(text, (folder,), path)["k"] == (FLOAT,)
    wide = types_of(text, (folder, "-DWIDE"), path)["k"][0]
    assert wide is not None
    assert wide.dtype == "float64"


def test_nothing_outside_the_sources_is_opened(tmp_path: Path) -> None:
    (tmp_path / "secret.h").write_text("typedef float real;")
    text = f'#include <{tmp_path}/secret.h>\n#include "/dev/zero"\n__global__ void k(real* a) {{}}'
    assert types_of(text, (), str(tmp_path / "k.cu"))["k"] == (None,)


def test_offsets_survive_crlf_and_odd_bytes() -> None:
    text = b"\xef\xbb\xbf// caf\xe9\r\nint host() {\r\n  return 1;\r\n}\r\n__global__ void k(float* a) {}\r\n"
    assert exact_types(parse(SourceFile("k.cu", text))) == {"k": (FLOAT,)}
