"""What each rewrite says no to, and why."""
# ruff: noqa: E501 -- a line of a kernel stays one line

from __future__ import annotations

import pytest

from optiml_core.rewrites import CATALOGUE, Refusal, Rewritten, rewrite_named
from rewrites.cases import context_of, refusal_of

LINE = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
PLANE = LINE + " int j = blockIdx.y * blockDim.y + threadIdx.y;"
ROW = "for (int j = 0; j < m; j++)"


def kernel(body: str, parameters: str = "const float* x, float* y, int n, int m", above: str = "") -> str:
    return f"{above}__global__ void f({parameters}) {{ {body} }}\n"


REFUSED = [
    # one thread per row to many
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ float s = 0; {ROW} s += x[j * n + i]; y[i] = s; }}"),
        "already read neighbouring",
    ),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ float s = 0; {ROW} s = s * 0.5f + x[i * m + j]; y[i] = s; }}"),
        "carries `s`",
    ),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ float s = 0; {ROW} {{ s += x[i * m + j]; y[i * m + j] = s; }} }}"),
        "reads `s` while",
    ),
    (
        "parallel-row",
        kernel(
            f"{LINE} if (i < n) {{ float s = 0; {ROW} {{ if (x[i * m + j] < 0) break; s += x[i * m + j]; }} y[i] = s; }}"
        ),
        "may end early",
    ),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ for (int j = 1; j < m; j++) y[i * m + j] = y[i * m + j - 1] + 1; }}"),
        "share elements of `y`",
    ),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ for (int j = 0; j < 8; j++) y[i * 8 + j] = x[i * 8 + j]; }}"),
        "only 8 rounds",
    ),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ float s = 0; {ROW} s += x[i * m + j]; y[i] = s + threadIdx.x; }}"),
        "beside `i`",
    ),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ float s = 0; {ROW} s += g(y, x[i * m + j]); y[i] = s; }}"),
        "handed to another function",
    ),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ float s = 0; {ROW} s += x[i * m + j]; while (s > 1) s /= 2; y[i] = s; }}"),
        "not a counted one",
    ),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ float s = 0; int j; for (j = 0; j < m; j++) s += x[i * m + j]; y[i] = s / j; }}"),
        "used outside its loop",
    ),
    (
        "parallel-row",
        kernel(f"__shared__ float t[4]; {LINE} if (i < n) {{ float s = 0; {ROW} s += x[i * m + j]; y[i] = s; }}"),
        "work together",
    ),
    ("parallel-row", kernel(f"{LINE} if (i < n) {{ float* s = y; {ROW} s += 1; y[i] = *s; }}"), "a local scalar"),
    # one thread per column to many
    (
        "parallel-column",
        kernel(f"{LINE} if (i < n) {{ float s = 0; {ROW} s += x[i * m + j]; y[i] = s; }}"),
        "do not read neighbouring",
    ),
    ("parallel-column", kernel(f"{LINE} if (i < n) {{ {ROW} y[j * n + i] = x[j * n + i]; }}"), "stores for every row"),
    ("parallel-column", kernel(f"{LINE} float s = 0; {ROW} s += x[j * n + i]; y[i] = s;"), "one upper bound of `i`"),
    # tiles of a matrix product
    (
        "register-tile-matmul",
        kernel(
            f"{PLANE} if (i < n && j < m) {{ float s = 0; for (int k = 0; k < n; k++) s += x[i * n + k] * x[k]; y[j * n + i] = s; }}"
        ),
        "does not depend on the inner index and one coordinate alone",
    ),
    (
        "register-tile-matmul",
        kernel(
            f"{PLANE} if (i < n && j < m) {{ float s = 0; for (int k = 0; k < 9; k++) s += x[i * n + k] * x[k * n + j]; y[j * n + i] = s; }}"
        ),
        "only 9 rounds",
    ),
    (
        "register-tile-matmul",
        kernel(
            f"{PLANE} if (i < n && j < m) {{ float s = 0; for (int k = 0; k < n; k++) {{ s += x[i * n + k] * x[k * n + j]; y[k] = s; }} }}"
        ),
        "does not just add up",
    ),
    (
        "register-tile-matmul",
        kernel(
            f"{PLANE} if (i < n && j < m) {{ float s = 0; for (int k = 0; k < i; k++) s += x[i * n + k] * x[k * n + j]; y[j * n + i] = s; }}"
        ),
        "same numbers in every thread",
    ),
    (
        "register-tile-matmul",
        kernel(
            f"{PLANE} if (i < n) {{ float s = 0; for (int k = 0; k < n; k++) s += x[i * n + k] * x[k * n + j]; y[j * n + i] = s; }}"
        ),
        "each of the two coordinates",
    ),
    (
        "register-tile-matmul",
        kernel(
            f"{PLANE} if (i < n && j < m) {{ float s = 0; for (int k = 0; k < n; k++) s += x[i * n + k] * x[k * n + j]; y[j * n + 2 * i] = s; }}"
        ),
        "not contiguous along one",
    ),
    # an accumulator in a register
    ("register-accumulator", kernel(f"{ROW} y[j] += x[j];"), "changes the index"),
    ("register-accumulator", kernel(f"{ROW} {{ y[0] += x[j]; y[1] += x[j]; }}"), "more than one element"),
    ("register-accumulator", kernel(f"{ROW} {{ y[0] += x[j]; __syncthreads(); }}"), "other threads may look"),
    (
        "register-accumulator",
        kernel(f"{ROW} y[0] += x[j];", "const float* x, volatile float* y, int n, int m"),
        "volatile",
    ),
    ("register-accumulator", kernel(f"{ROW} {{ y[0] += x[j]; g(y); }}"), "other threads may look"),
    # exchanged thread indexes
    (
        "swap-thread-roles",
        kernel(f"{PLANE} if (i < n && j < m) y[j * n + i] = x[i];"),
        "contiguous along threadIdx.x already",
    ),
    (
        "swap-thread-roles",
        kernel(f"{PLANE} if (i < n && j < m) y[i * m + j] = __shfl_sync(~0u, x[0], 3);"),
        "share a warp",
    ),
    ("swap-thread-roles", kernel(f"{LINE} if (i < n) y[i] = 0;"), "both threadIdx.x and threadIdx.y"),
    (
        "swap-thread-roles",
        kernel("y[TX * n + threadIdx.y] = threadIdx.x;", above="#define TX threadIdx.x\n"),
        "a macro hides",
    ),
    (
        "swap-thread-roles",
        kernel(f"{PLANE} y[i * m + j] = where();", above="__device__ int where() { return threadIdx.x; }\n"),
        "hands its thread index on",
    ),
    # vectors
    ("vectorize-access", kernel(f"{LINE} if (i < n) y[2 * i] = x[i];"), "places that are no neighbours"),
    (
        "vectorize-access",
        kernel(f"{LINE} if (i < n) {{ if (x[i] > 0) y[i] = x[i]; }}"),
        "not stored to for every element",
    ),
    ("vectorize-access", kernel(f"{LINE} if (i < n) y[i] = y[i + 1];"), "no neighbours"),
    ("vectorize-access", kernel(f"{LINE} if (i < n && x[i] > 0) y[i] = x[i];"), "one upper bound of `i`"),
    (
        "vectorize-access",
        kernel(f"{LINE} if (i < n) {{ y[i] = x[i]; if (y[i] > 3) return; y[i] = 0; }}"),
        "may leave before",
    ),
    (
        "vectorize-access",
        kernel("for (int j = threadIdx.x; j < n; j += blockDim.x) y[j] = 1; y[n] = 2;"),
        "other shares",
    ),
    # trees to shuffles
    (
        "shuffle-reduction",
        kernel(
            "__shared__ float s[64]; for (int k = n; k > 0; k /= 2) { if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k]; __syncthreads(); } y[0] = s[0];"
        ),
        "half the block's width",
    ),
    (
        "shuffle-reduction",
        kernel(
            "__shared__ float s[48]; for (int k = 24; k > 0; k /= 2) { if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k]; __syncthreads(); } y[0] = s[0];"
        ),
        "a tree over 48 values",
    ),
    (
        "shuffle-reduction",
        kernel(
            "__shared__ float s[64]; for (int k = blockDim.x / 2; k > 0; k /= 2) { if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k]; __syncthreads(); } y[0] = s[1];"
        ),
        "more than the first element",
    ),
    (
        "shuffle-reduction",
        kernel(
            "__shared__ float s[64]; for (int k = blockDim.x / 2; k > 0; k /= 2) { if (threadIdx.x < k) s[threadIdx.x] *= s[threadIdx.x + k]; __syncthreads(); } y[0] = s[0];"
        ),
        "at a distance",
    ),
    (
        "shuffle-reduction",
        kernel(
            "__shared__ float s[64]; for (int k = blockDim.x / 2; k > 0; k /= 2) { if (threadIdx.x < k) s[threadIdx.y] += s[threadIdx.x + k]; __syncthreads(); } y[0] = s[0];"
        ),
        "not one row of threads",
    ),
    (
        "shuffle-reduction",
        kernel(
            "__shared__ float s[64]; for (int k = blockDim.x / 2; k > 0; k /= 2) { if (threadIdx.x < k) { s[threadIdx.x] += s[threadIdx.x + k]; y[k] = 1; } __syncthreads(); } y[0] = s[0];"
        ),
        "more than combine pairs",
    ),
    # private counters
    ("privatize-atomics", kernel(f"{LINE} if (i < n) y[0] = atomicAdd(&y[i % 4], 1.0f);"), "lets the result go"),
    ("privatize-atomics", kernel(f"{LINE} if (i < n) atomicAdd(&y[i], x[i]);"), "different counters already"),
    ("privatize-atomics", kernel("atomicAdd(&y[(int)x[0]], 1.0f); y[3] = 2;"), "other than by adding"),
    (
        "privatize-atomics",
        kernel("atomicAdd(&y[(int)x[0]], 1.0f); atomicMax((int*)&y[2], 3); atomicExch(&y[0], 3.0f);"),
        "atomicExch",
    ),
    (
        "privatize-atomics",
        kernel(f"{LINE} if (i < n) {{ if (x[i] < 0) return; atomicAdd(&y[(int)x[i]], 1.0f); }}"),
        "may leave before the counts",
    ),
    # padding
    (
        "pad-shared",
        kernel("__shared__ float t[32][32]; t[threadIdx.y][threadIdx.x] = 0; y[0] = t[threadIdx.y][threadIdx.x];"),
        "no warp walks down",
    ),
    ("pad-shared", kernel("__shared__ float t[32][33]; t[threadIdx.x][0] = 0;"), "different banks already"),
    (
        "pad-shared",
        kernel("__shared__ float t[32][32]; t[threadIdx.x][0] = 0; y[0] = *(t[1]);"),
        "other than by two subscripts",
    ),
    (
        "pad-shared",
        kernel("__shared__ float t[32][32]; t[threadIdx.x][0] = 0; y[0] = sizeof(t);"),
        "other than by two subscripts",
    ),
    # literals
    ("float-literals", kernel("y[0] = x[0] * 0.1;"), "without changing a result"),
    ("float-literals", kernel("y[0] = x[0] * 0.5 + 1.0;"), "without changing a result"),
    ("float-literals", kernel("double s = x[0] * 0.5; y[0] = s;"), "without changing a result"),
    ("float-literals", kernel("y[0] += x[0] * 0.5;"), "without changing a result"),
    # block size
    ("launch-shape", kernel(f"{LINE} y[i] = 0;"), "does not bound every coordinate"),
    ("launch-shape", kernel(f"{LINE} if (i < n) y[i] = blockDim.x;"), "beside its coordinates"),
    ("launch-shape", kernel("y[threadIdx.x] = 0;"), "no variable is a thread's place"),
    # coarsening
    ("coarsen-grid-stride", kernel(f"{LINE} if (i < n) {{ y[i] = 0; __syncthreads(); }}"), "barriers"),
    (
        "coarsen-grid-stride",
        kernel(f"float s = 0; {LINE} if (i < n) {{ s += x[i]; y[i] = s; }}"),
        "from one element to the next",
    ),
    (
        "coarsen-grid-stride",
        kernel(f"{LINE} if (i < n) {{ for (int k = 0; k < 3; k++) if (x[k] < 0) return; y[i] = 0; }}"),
        "returns from inside a loop",
    ),
    # unrolling
    (
        "unroll-loop",
        kernel("\n#pragma unroll 2\nfor (int k = 0; k < n; k++) y[k] = 0;\n"),
        "marked for unrolling already",
    ),
    ("unroll-loop", kernel("\nfor (int k = 0; k < n; k++) { y[k] = 0; if (x[k] < 0) break; }\n"), "may end early"),
    ("unroll-loop", kernel("\nfor (int k = 0; k < n; k += blockDim.x) y[k] = 0;\n"), "is not a number"),
    ("unroll-loop", kernel("\nfor (int k = n; k > 0; k /= 2) y[k] = 0;\n"), "counted one"),
    # promises about buffers
    ("restrict-readonly", kernel("y[0] = 1;", "float* __restrict__ y, int n"), "marked already"),
    ("restrict-readonly", kernel("float* p = n > 1 ? y : (float*)x; p[0] = 1;"), "known to go to one parameter"),
    ("restrict-readonly", kernel("int k = n;", "int n"), "no pointer parameters"),
    # what looks like a value and may be written
    ("coarsen-grid-stride", kernel(f"{LINE} if (i < n) {{ y[i] = 0; __syncthreads(); }}"), "barriers"),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ {ROW} SET(y[i * m + j]); }}", above="#define SET(a) a = 1\n"),
        "looks like a value",
    ),
    (
        "parallel-row",
        kernel(f"{LINE} if (i < n) {{ {ROW} set(y[i * m + j]); }}", above="__device__ void set(float& a) { a = 1; }\n"),
        "looks like a value",
    ),
    (
        "vectorize-access",
        kernel(f"{LINE} if (i < n) WIDE(y[i]) = 1;", above="#define WIDE(a) (*reinterpret_cast<int*>(&(a)))\n"),
        "known to go to one parameter",
    ),
    ("vectorize-access", kernel(f"{LINE} if (i < n) y[i] = FETCH(x[i]);"), "known to go to one parameter"),
    (
        "vectorize-access",
        # Each block's sum is stored: with vectors it would be the sum of other elements.
        kernel(
            "float s = 0; for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) "
            "{ s += x[i]; } y[blockIdx.x * blockDim.x + threadIdx.x] = s;"
        ),
        "stored in `y` block by block",
    ),
]


@pytest.mark.parametrize(("name", "text", "reason"), REFUSED)
def test_refusals(name: str, text: str, reason: str) -> None:
    rewrite = rewrite_named(name)
    assert rewrite is not None
    assert reason in refusal_of(rewrite, context_of(text, allow=("launch", "no-alias")))


ALLOCATED = """
void g(float* h, int n) { float *a, *b; cudaMalloc(&a, n); cudaMalloc((void**)&b, n); f<<<1, 32>>>(a, b, n, n); }
int main() { g(0, 3); }
"""


@pytest.mark.parametrize("name", ["restrict-readonly", "register-accumulator"])
def test_separate_allocations_prove_that_buffers_do_not_overlap(name: str) -> None:
    rewrite = rewrite_named(name)
    assert rewrite is not None
    text = kernel(f"{ROW} y[0] += x[j];")
    assert "may overlap" in refusal_of(rewrite, context_of(text))
    options = rewrite.options(context_of(text + ALLOCATED))
    assert not isinstance(options, Refusal), options
    made = rewrite.apply(context_of(text + ALLOCATED), options[0])
    assert isinstance(made, Rewritten)
    assert not made.not_checked
    for broken in (
        ALLOCATED.replace("(a, b, n", "(a, a, n"),
        ALLOCATED.replace("(a, b, n", "(a, b + 1, n"),
        ALLOCATED.replace("f<<<", "b = a; f<<<"),
        ALLOCATED.replace("cudaMalloc((void**)&b, n);", ""),
        ALLOCATED.replace("f<<<", "swap(&a, &b); f<<<"),
        ALLOCATED + "void k(float* a, float* b) { f<<<1, 1>>>(a, b, 1, 1); }\n",
    ):
        assert "may overlap" in refusal_of(rewrite, context_of(text + broken)), broken
    assert "not searched" in refusal_of(rewrite, context_of(text + ALLOCATED, searched=False))


@pytest.mark.parametrize("name", ["restrict-readonly", "register-accumulator"])
def test_what_is_allowed_stands_under_not_checked(name: str) -> None:
    rewrite = rewrite_named(name)
    assert rewrite is not None
    context = context_of(kernel(f"{ROW} y[0] += x[j];"), allow=("no-alias",))
    options = rewrite.options(context)
    assert not isinstance(options, Refusal)
    made = rewrite.apply(context, options[0])
    assert isinstance(made, Rewritten)
    assert made.not_checked == ("y does not overlap x",)


def test_types_that_cannot_overlap_need_no_proof() -> None:
    text = kernel(f"{ROW} y[0] += x[j];", "const int* x, float* y, int n, int m")
    rewrite = rewrite_named("register-accumulator")
    assert rewrite is not None
    assert not isinstance(rewrite.options(context_of(text)), Refusal)
    bytes_ = kernel(f"{ROW} y[0] += x[j];", "const unsigned char* x, float* y, int n, int m")
    assert "may overlap" in refusal_of(rewrite, context_of(bytes_))


@pytest.mark.parametrize("rewrite", CATALOGUE, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "text",
    [
        kernel("y[0] = x[0"),
        kernel("int i = ; if (i <"),
        kernel("#if N\n y[0] = 1;\n#else\n y[0] = 2;\n#endif\n"),
        kernel("asm volatile(\"nop;\"); y[0] = 1;"),
        kernel(""),
        "template <int N> __global__ void f(T (&x)[N]) { for (;;) x[0]++; }",
        "__global__ void f(float* y) { auto g = [=](int i) { y[i] = 0; }; g(threadIdx.x); }",
    ],
)  # fmt: skip
def test_broken_and_odd_code_is_refused_or_left_whole(rewrite: object, text: str) -> None:
    """Never an exception: a refusal, or edits that parse."""
    context = context_of(text, allow=("launch", "no-alias"))
    options = rewrite.options(context)  # type: ignore[attr-defined]
    if not isinstance(options, Refusal):
        for option in options:
            assert isinstance(rewrite.apply(context, option), Rewritten)  # type: ignore[attr-defined]


def test_a_sum_that_a_function_gathers_by_reference_is_not_shared_out() -> None:
    text = kernel(
        f"{LINE} if (i < n) {{ float s = 0, t = 0; {ROW} {{ s += x[i * m + j]; gather(t, x[i * m + j]); }} y[i] = s + t; }}",
        above="__device__ void gather(float& sum, float value) { sum += value; }\n",
    )
    rewrite = rewrite_named("parallel-row")
    assert rewrite is not None
    assert "may write what looks like a value" in refusal_of(rewrite, context_of(text, allow=("launch",)))
