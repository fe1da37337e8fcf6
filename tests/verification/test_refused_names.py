"""Names that a candidate may not introduce, each beside a neighbour that it may."""

from __future__ import annotations

import pytest

from optiml_core.verification.checks.refused_names import narrower_indexes, problem
from optiml_core.verification.tokens import tokenize

ORIGINAL = "#include <cuda_fp16.h>\n#define N 4\n__global__ void f(float* x) { x[0] = expf(x[1]) + sinf(x[2]); }\n"


def after(line: str, directive: str = "") -> str:
    return f"#include <cuda_fp16.h>\n#define N 4\n{directive}\n__global__ void f(float* x) {{ {line} }}\n"


@pytest.mark.parametrize(
    "line",
    [
        "half h = x[0];",
        "__half2 h;",
        "__nv_bfloat16 h;",
        "_Float16 h;",
        "x[0] = __expf(x[1]);",
        "x[0] = __fdividef(x[1], 3.f);",
        "x[0] = __sinf(x[1]);",
        "x[0] = __fmul_rz(x[1], x[2]);",
        "x[0] = __int2float_rz(3);",
        "atomicAdd_block(x, 1.f);",
        "cooperative_groups::this_grid().sync();",
        "unsigned m = __activemask();",
        "short i = threadIdx.x;",
        "unsigned char count = 0;",
        "x[(unsigned short)(threadIdx.x * 3)] = 0;",
        "x[static_cast<short>(threadIdx.x)] = 0;",
        "x[0] = ((size_t)x >> 12) % 257;",
        "x[0] = (size_t)&x >> 44;",
        "x[0] = __SSE2__;",
        'asm volatile("nop;");',
        'as\\\nm("nop;");',
        "cudaStreamCreate(0);",
        "cudaMalloc(0, 1);",
        "x[0] = clock64();",
        "x[0] = __builtin_cpu_supports(0);",
        "x[0] = __LINE__;",
        "x[0] = __cuemu_hidden();",
        "wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32> a;",
        "__attribute__((constructor)) int y;",
    ],
)
def test_refused_in_code(line: str) -> None:
    assert problem(ORIGINAL, after(line), (), ()) is not None


HALF = "#include <cuda_fp16.h>\n__global__ void f(__half* x) {{ x[0] = {} }}\n"


@pytest.mark.parametrize(
    ("before", "changed", "refused"),
    [
        ("__float2half(2.f * __half2float(x[1]));", "__hmul(__float2half(2.f), x[1]);", True),
        ("__float2half(2.f * __half2float(x[1]));", "__float2half_rz(2.f * __half2float(x[1]));", True),
        ("__float2half(2.f * __half2float(x[1]));", "__float2half_rn(2.f * __half2float(x[1]));", False),
        ("__hadd(x[1], x[2]);", "__hadd(x[2], x[1]);", False),
        ("__hadd(x[1], __hmul(x[2], x[3]));", "__hfma(x[2], x[3], x[1]);", False),
        ("x[1] + x[2];", "__hadd(x[1], x[2]);", False),
    ],
)
def test_half_that_is_only_stored_stays_so(before: str, changed: str, refused: bool) -> None:
    assert (problem(HALF.format(before), HALF.format(changed), (), ()) is not None) == refused


@pytest.mark.parametrize(
    "directive",
    [
        "#include <mma.h>",
        "#  include <mma.h>",
        "#if __CUDA_ARCH__ >= 800\n#endif",
        "#ifdef __CUDACC__\n#endif",
        "#ifndef SECRET\n#endif",
        '#pragma GCC optimize("fast-math")',
        "#define JOIN(a, b) a##b",
        "#define FAST __expf",
        "#line 7",
    ],
)
def test_refused_directives(directive: str) -> None:
    assert problem(ORIGINAL, after("", directive), (), ()) is not None


@pytest.mark.parametrize(
    ("line", "directive"),
    [
        ("// __expf in a comment\n x[0] = 1;", ""),
        ('printf("__expf asm half");', ""),
        ("float half_sum = x[0];", ""),
        ("int half = 4; half /= 2;", ""),
        ("x[0] = __fmaf_rn(x[1], x[2], 0.f);", ""),
        ("__syncthreads(); x[0] = __shfl_down_sync(~0u, x[0], 1);", ""),
        ("#pragma unroll\n for (;;) {}", ""),
        ("", "#define TILE 32\n#if TILE > 16\n#endif"),
        ("x[0] = __ldg(x + 1);", ""),
        ("if (((size_t)x & 15) == 0) x[0] = 1;", ""),
        ("const char* bytes = (const char*)x; x[0] = bytes[0] * sizeof(short);", ""),
        ("extern __shared__ char memory[]; x[0] = *reinterpret_cast<short*>(memory);", ""),
        ("int short_side = 3; long shortest = 4; x[0] = short_side + shortest;", ""),
    ],
)
def test_allowed(line: str, directive: str) -> None:
    assert problem(ORIGINAL, after(line, directive), (), ()) is None


def test_a_name_of_the_original_is_never_refused() -> None:
    original = after("half h = x[0]; x[0] = __expf(h);")
    assert problem(original, after("half h = x[0]; x[1] = __expf(h) * 2;"), (), ()) is None


@pytest.mark.parametrize(
    ("word", "line"),
    [("narrower", "half h = x[0];"), ("fast-math", "x[0] = __expf(x[1]);"), ("tf32", "precision::tf32 a;")],
)
def test_opt_ins(word: str, line: str) -> None:
    refusal = problem(ORIGINAL, after(line), (), ())
    assert refusal is not None
    assert f"--allow {word}" in refusal
    assert problem(ORIGINAL, after(line), (), (), frozenset({word})) is None


WIDE = "__global__ void f(float* x, int n) { size_t i = (size_t)blockIdx.x * n; x[i] = 0; }"


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [
        (WIDE, WIDE.replace("size_t", "int"), True),
        (WIDE, WIDE.replace("size_t", "unsigned"), True),
        (WIDE, WIDE.replace("size_t", "long long"), False),
        (WIDE, WIDE.replace("(size_t)blockIdx.x * n", "n * (size_t)blockIdx.x"), False),
        (WIDE.replace("size_t", "int"), WIDE.replace("size_t", "unsigned"), False),
    ],
)
def test_indexes_of_64_bits_stay_so(before: str, now: str, refused: bool) -> None:
    """What fails at 2^31 elements only is not run, so it is read."""
    assert (narrower_indexes(before, now) is not None) == refused
    assert narrower_indexes(before, now, frozenset({"narrower"})) is None


@pytest.mark.parametrize(
    ("line", "changed", "refused"),
    [
        ("__threadfence();", "__threadfence_block();", True),
        ("__threadfence_system();", "__threadfence(); __threadfence_block();", True),
        ("__threadfence(); __threadfence_block();", "__threadfence_block(); __threadfence();", False),
        ("x[0] = 1;", "__threadfence_block(); x[0] = 1;", False),
    ],
)
def test_a_fence_for_all_blocks_stays_one(line: str, changed: str, refused: bool) -> None:
    assert (problem(after(line), after(changed), (), ()) is not None) == refused


def test_double_may_not_become_float() -> None:
    original = "__global__ void f(float* x) { double s = 0; s += x[0]; x[1] = s; }"
    assert problem(original, original.replace("double", "float"), (), ()) is not None
    partly = "__global__ void f(float* x) { double s = 0; double t = x[0]; x[1] = s + t; }"
    assert problem(partly, partly.replace("double t", "float t"), (), ()) is not None
    plain = "__global__ void f(double* x) { x[0] += 1; }"
    assert problem(plain, "__global__ void f(double* x) { float s = x[0]; x[0] = s + 1; }", (), ()) is not None


def test_a_kernel_in_half_precision_may_use_more_of_it() -> None:
    original = after("__half h = __hadd(h, h);")
    assert problem(original, after("__half h = __hmul(h, __float2half(1.f));"), (), ()) is None
    assert problem(original, after("__nv_bfloat16 h;"), (), ()) is not None
    assert problem(original, after("__half h; __nv_fp8_e4m3 q;"), (), ()) is not None


@pytest.mark.parametrize("flag", ["-use_fast_math", "--use_fast_math", "--ftz=true", "-prec-div=false"])
def test_flags(flag: str) -> None:
    assert problem(ORIGINAL, ORIGINAL, (), (flag,)) is not None
    assert problem(ORIGINAL, ORIGINAL, (flag,), (flag,)) is None
    assert problem(ORIGINAL, ORIGINAL, (), (flag,), frozenset({"fast-math"})) is None


def test_tokens() -> None:
    tokens = tokenize('a->b /* asm */ "x\\"y" R"(as"m)" f<<<1>>> // asm\n#define A(x) x\nc')
    assert tokens.code == ("a", "->", "b", '"x\\"y"', 'R"(as"m)"', "f", "<<<", "1", ">>>", "c")
    assert tokens.directives == (("#", "define", "A", "(", "x", ")", "x"),)
