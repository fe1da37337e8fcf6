"""Text of equal length that the grammar reads: what is repaired, and that nothing else moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optiml_core.source import SourceFile, accesses, arrays_in, barriers, loops, parse
from optiml_core.source.qualifier_macros import _PARTS, WELL_KNOWN_QUALIFIERS

BODY = "__global__ void k(float* a, int n) {{ {} }}"


@pytest.mark.parametrize(
    "text",
    [
        BODY.format("extern __shared__ __align__(16) float s[]; s[0] = 1;"),
        BODY.format("auto f = [=] __device__ (int x) { return x; }; f(1);"),
        BODY.format("\n#pragma unroll\nfor (int i = 0; i < n; i++) a[i] = 1;"),
        BODY.format("\n  CHECK(a)\n  CHECK(n)\n  a[0] = 1;"),
        BODY.format("\n  CHECK(a)\r\n  a[0] = 1;"),
        BODY.format("\n  KERNEL_LOOP(i, n) { a[i] = 1; }"),
        BODY.format("alignas(16) float t[4]; t[0] = 1;"),
        BODY.format("CUTE_UNROLL for (int i = 0; i < n; i++) a[i] = 1;"),
        "#define SWAP(t, x, y) { t z = x; x = y; y = z; }\n" + BODY.format("SWAP(int, n, n); n = 1;"),
        "#define STEP a[0] += 1;\n#define TWICE STEP STEP\n" + BODY.format("\n  TWICE TWICE\n  n = 1;"),
        "#define DEV __device__ inline\nDEV float f(float x) { return x; }\n" + BODY.format("f(1);"),
        "struct __align__(8) S { float x; };\n" + BODY.format(""),
        "__global__ void __cluster_dims__(2, 1, 1) k(float* __restrict__ a, const __grid_constant__ int n) { }",
        "__global__ void LAUNCH_BOUNDS (128, 2) k(float* RESTRICT a) { }",
        "__global__ void k(CUTLASS_GRID_CONSTANT const int n) { }",
        "template <class T> __global__ void k(const T& x = {}) { auto y = typename T::Z{}; }",
    ],
)
def test_kernels_that_the_plain_grammar_stumbles_over(text: str) -> None:
    unit = parse(SourceFile("k.cu", text.encode()))
    assert unit.kernels
    for kernel in unit.kernels:
        assert not kernel.has_syntax_error
    assert len(unit.blanked.text) == len(unit.blanked.skeleton) == len(text.encode())


def test_every_well_known_qualifier_is_looked_for() -> None:
    assert [n for n in WELL_KNOWN_QUALIFIERS if not any(p in n.encode() for p in _PARTS)] == []


snippets = st.sampled_from(
    ["__global__ ", "void k(", "int n", ")", "{", "}", ";", "\n", '"', "'", "/*", "*/", "//", "#if 0\n", "#endif\n",
     "<<<",      ">>>", "template <", ">", "__align__(", "CHECK(x)\n", "R\"(", "\\\n", "\x00", "\xff",
     "for (int i = 0; i < n; i++) "]
)  # fmt: skip


@given(st.lists(snippets, max_size=40).map("".join))
def test_no_text_breaks_the_parser(text: str) -> None:
    data = text.encode("latin-1")
    unit = parse(SourceFile("k.cu", data))
    assert len(unit.blanked.text) == len(unit.scan.skeleton) == len(unit.plain) == len(data)
    _ = (unit.includes, unit.macros, unit.device_functions, unit.globals, unit.structs, unit.type_aliases)
    for kernel in unit.kernels:
        _ = (loops(unit, kernel), accesses(unit, kernel), arrays_in(unit, kernel), barriers(unit, kernel))
        assert 0 <= kernel.range.start_byte <= kernel.body_range.start_byte < kernel.body_range.end_byte <= len(data)
