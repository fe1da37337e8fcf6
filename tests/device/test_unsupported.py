"""What the emulator cannot run: a Failure that names the line, before anything is compiled."""

from __future__ import annotations

import pytest

from optiml_core.device.emulator.prepare import prepare_body
from optiml_core.records import Failure

CASES = [
    ('__global__ void k() {\n  asm volatile("bar.sync 0;");\n}', 2, "inline assembly"),
    ("__global__ void k(cudaTextureObject_t t) {}", 1, "textures"),
    ("__global__ void k(float* o, int t) {\n\n  o[0] = tex2D<float>(t, 1, 2);\n}", 3, "textures"),
    ("__global__ void k(int s) { surf2Dwrite(1.0f, s, 0, 0); }", 1, "surfaces"),
    ("__global__ void k() {\n auto c = cooperative_groups::this_cluster();\n}", 2, "clusters"),
    ("__global__ void __cluster_dims__(2) k() {}", 1, "clusters"),
    ("__global__ void c();\n__global__ void k() { c<<<1, 1>>>(); }", 2, "launches"),
    ("__global__ void k(int** p) {\n p[0] = (int*)malloc(4);\n}", 2, "memory"),
    ("__global__ void k(int** p) {\n p[0] = new int[4];\n}", 2, "memory"),
    ("__global__ void k() { typedef cub::BlockReduce<float, 128> R; }", 1, "library"),
]


@pytest.mark.parametrize(("text", "line", "words"), CASES)
def test_refused_with_its_line(text: str, line: int, words: str) -> None:
    found = prepare_body(text)
    assert isinstance(found, Failure)
    assert (found.kind, found.line) == ("unsupported", line)
    assert words in found.message


@pytest.mark.parametrize(
    "text",
    [
        "#define ASM asm\n#define CHECK(x) if (!(x)) throw 1\n__global__ void k() {}",
        '// asm\n/* tex2D(t) */ __global__ void k() { const char* s = "new asm"; }',
        "struct A { int free; A(const A&) = delete; }; __global__ void k(A* a) { a->free = 1; }",
        "__global__ void k(int* texture, int cub) { texture[0] = cub; }",
    ],
)
def test_accepted(text: str) -> None:
    assert isinstance(prepare_body(text), str)


LINES = [
    ("static __device__ int n;", "static __managed__ int n;"),
    ("__device__ __align__(16) float t[4] = {1};", "__managed__ __align__(16) float t[4] = {1};"),
    ("__device__ int f(int a);", "__device__ int f(int a);"),
    ("struct S { __device__ int g() { return 1; } };", "struct S { __device__ int g() { return 1; } };"),
    ("namespace a { __device__ int n; }", "namespace a { __managed__ int n; }"),
    (
        "void f() { extern __shared__ float s[]; }",
        "void f() { float *s = (float *)optiml_device_dynamic_shared(); }",
    ),
    (
        "void f() { extern __shared__ __align__(16) unsigned char raw[]; }",
        "void f() { unsigned char *raw = (unsigned char *)optiml_device_dynamic_shared(); }",
    ),
    (
        "void f() { extern __align__(16) __shared__ T s[][N + 1]; }",
        "void f() { T (*s)[ N + 1 ] = (T (*)[ N + 1 ])optiml_device_dynamic_shared(); }",
    ),
    ("#include <cuda_fp16.h>\nint a;", "\nint a;"),
    ("void f() { __shared__ float s[4]; }", "void f() { __shared__ float s[4]; }"),
]


@pytest.mark.parametrize(("before", "after"), LINES)
def test_text_is_made_ready(before: str, after: str) -> None:
    assert prepare_body(before) == after
