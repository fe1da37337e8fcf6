"""Checks that read the two files: signature, other code, what the file's own launches prove."""

from __future__ import annotations

import pytest

from optiml_core.source import SourceFile, TranslationUnit, parse
from optiml_core.verification.checks import launch_facts, other_code, signature

KERNEL = "__global__ void f(const float* x, float* y, int n) { y[0] = x[n]; }"


def unit(text: str) -> TranslationUnit:
    return parse(SourceFile("f.cu", text.encode()))


def signature_problem(before: str, after: str) -> str | None:
    original, candidate = unit(before).kernel("f"), unit(after).kernel("f")
    assert original is not None
    return signature.problem(original, candidate)


@pytest.mark.parametrize(
    "after",
    [
        KERNEL,
        "__global__ void f(const float* __restrict__ x, float* __restrict y, const int n) {}",
        "__global__ void f(float const *x, float *y, int n) {}",
        "__global__ void f(const float* a, float* b, int c) {}",
        "__global__ void __launch_bounds__(256) f(const float *x,float*y,int n) {}",
    ],
)
def test_the_same_signature(after: str) -> None:
    assert signature_problem(KERNEL, after) is None


@pytest.mark.parametrize(
    "after",
    [
        "__global__ void g(const float* x, float* y, int n) {}",
        "__global__ void f(const float* x, float* y) {}",
        "__global__ void f(const float* x, float* y, int n, int m) {}",
        "__global__ void f(float* y, const float* x, int n) {}",
        "__global__ void f(const float* x, float* y, unsigned n) {}",
        "__global__ void f(const float* x, float* y, long n) {}",
        "__global__ void f(const double* x, double* y, int n) {}",
        "__global__ void f(float* x, float* y, int n) {}",
        "__global__ void f(const float4* x, float* y, int n) {}",
        "template <int N> __global__ void f(const float* x, float* y, int n) {}",
        "__global__ void f(const float* x, float* y, int* n) {}",
    ],
)
def test_a_changed_signature(after: str) -> None:
    assert signature_problem(KERNEL, after) is not None


def test_const_may_be_added_to_what_a_pointer_points_to() -> None:
    before = "__global__ void f(float* x, float* y) {}"
    after = "__global__ void f(const float* __restrict__ x, float* y) {}"
    assert signature_problem(before, after) is None
    original, candidate = unit(before).kernel("f"), unit(after).kernel("f")
    assert original is not None
    assert candidate is not None
    assert signature.added_const(original, candidate) == ("x",)


def test_a_further_kernel_or_launch() -> None:
    host = "\nint main() { f<<<1, 1>>>(a, b, 1); }"
    assert signature.extra_kernels(unit(KERNEL + host), unit(KERNEL + host)) is None
    assert signature.extra_kernels(unit(KERNEL), unit(KERNEL + "\n__global__ void g() {}")) is not None
    twice = "\nint main() { f<<<1, 1>>>(a, b, 1); f<<<1, 1>>>(a, b, 1); }"
    assert signature.extra_kernels(unit(KERNEL + host), unit(KERNEL + twice)) is not None


FILE = """#define SCALE 2.f
__device__ float helper(float v) { return v * SCALE; }
__device__ float other(float v) { return v; }
__global__ void f(const float* x, float* y, int n) { y[0] = other(x[n]); }
__global__ void g(float* y) { y[0] = helper(y[0]); }
__global__ void w(float* y) { float kept = fabsf(y[0]); y[0] = kept; }
void run(float* y) { g<<<1, 32>>>(y); }
"""


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ("other(x[n])", "2.f * other(x[n])", True),
        ("return v; }", "return v + 0.f; }", True),
        ("y[0] = helper(y[0]);", "y[0]  =  helper(y[0]); /* the same */", True),
        ("y[0] = helper(y[0]);", "y[0] = helper(y[1]);", False),
        ("return v * SCALE;", "return SCALE * v;", False),
        ("SCALE 2.f", "SCALE 3.f", False),
        ("__global__ void g(float* y)", "__global__ void h(float* y)", False),
        ("#define SCALE", "__device__ float added(float v) { return v; }\n#define SCALE", True),
        ("#define SCALE", "__device__ float kept(float v) { return v; }\n#define SCALE", True),
        ("#define SCALE", "__device__ float fabsf(float v) { return v; }\n#define SCALE", False),
        ("#define SCALE", "#define kept 3\n#define SCALE", False),
    ],
)
def test_other_kernels_stay(before: str, after: str, accepted: bool) -> None:
    assert FILE.count(before) == 1
    assert (other_code.problem(unit(FILE), unit(FILE.replace(before, after)), "f") is None) == accepted


STATE = "__device__ int total; __device__ int other; __constant__ int limit; "


@pytest.mark.parametrize(
    ("before", "after", "accepted"),
    [
        ("y[0] = x[n] + limit;", "y[0] = limit + x[n];", True),
        ("y[0] = x[n] + total;", "y[0] = total + x[n];", True),
        ("y[0] = x[n];", "y[0] = x[n]; other = 1;", False),
        ("y[0] = x[n]; total = 1;", "y[0] = x[n]; total = 1;", False),
        ("y[0] = x[n]; atomicAdd(&total, 1);", "y[0] = x[n];", False),
        ("y[0] = x[n]; total++;", "y[0] = x[n];", False),
        ("y[0] = x[n] == total;", "y[0] = x[n] == total;", True),
    ],
)
def test_module_variables(before: str, after: str, accepted: bool) -> None:
    files = [unit(STATE + KERNEL.replace("y[0] = x[n];", text)) for text in (before, after)]
    assert (other_code.module_state(files[0], files[1], "f", frozenset()) is None) == accepted
    assert other_code.module_state(files[0], files[1], "f", frozenset({"total", "other"})) is None


def test_host_code_is_compared_beyond_launches() -> None:
    assert not other_code.host_code_differs(unit(FILE), unit(FILE.replace("<<<1, 32>>>", "<<<2, 64>>>")))
    assert not other_code.host_code_differs(unit(FILE), unit(FILE.replace("y[0] = other", "y[1] = other")))
    assert other_code.host_code_differs(unit(FILE), unit(FILE.replace("(y); }", "(y + 1); }")))


def program(allocation: str = "", call: str = "f<<<1, 32>>>(a, b, 7);", head: str = "int main() {") -> str:
    plain = "float *a, *b; cudaMalloc(&a, 400); cudaMalloc((void**)&b, 400);"
    return f"{KERNEL}\n{head} {allocation or plain} {call} }}\n"


@pytest.mark.parametrize(
    ("text", "proven"),
    [
        (program(), True),
        (program("float *a = nullptr, *b = 0; cudaMallocManaged(&a, 4); cudaMallocAsync(&b, 4, s);"), True),
        (program(call="f<<<1, 32>>>(a, a, 7);"), False),
        (program(call="f<<<1, 32>>>(a + 1, b, 7);"), False),
        (program(call="f<<<1, 32>>>(a, b, 7); f<<<1, 32>>>(b, b, 7);"), False),
        (program("float *a, *b; cudaMalloc(&a, 400); b = a + 10;"), False),
        (program("float *a, *b; cudaMalloc(&a, 400); cudaMalloc(&b, 4); a++;"), False),
        (program("float *a, *b; cudaMalloc(&a, 400); cudaMalloc(&b, 4); swap(&a, &b);"), False),
        (program(head="void run(float* c) {"), False),
        (KERNEL, False),
        (KERNEL + "\nint main() { }", False),
    ],
)
def test_what_the_launches_of_a_program_prove(text: str, proven: bool) -> None:
    found = unit(text)
    kernel = found.kernel("f")
    assert kernel is not None
    assert launch_facts.every_launch_passes_whole_allocations(found, kernel) == proven
