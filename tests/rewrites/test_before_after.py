"""Small kernels before and after each rewrite, as text."""
# ruff: noqa: E501 -- a line of a kernel stays one line

from __future__ import annotations

import pytest

from optiml_core.rewrites import Option, Refusal, rewrite_named
from rewrites.cases import context_of, rewrite_text

LINE = "int i = blockIdx.x * blockDim.x + threadIdx.x;"


def after(name: str, before: str, option: int = 0, allow: tuple[str, ...] = ("launch", "no-alias")) -> str:
    rewrite = rewrite_named(name)
    assert rewrite is not None
    context = context_of(before, allow=allow)
    options = rewrite.options(context)
    assert not isinstance(options, Refusal), options.reason
    return rewrite_text(rewrite, context, Option(options[option].parameters))[0]


CASES = [
    pytest.param(
        "register-accumulator",
        "__global__ void f(float* y, const float* x, int n) {\n  y[0] = 0;\n  for (int i = 0; i < n; i++) y[0] += x[i];\n}\n",
        "__global__ void f(float* y, const float* x, int n) {\n  float sum = 0;\n"
        "  for (int i = 0; i < n; i++) sum += x[i];\n  y[0] = sum;\n}\n",
        id="a-sum-that-begins-with-a-store",
    ),
    pytest.param(
        "register-accumulator",
        "__global__ void f(double *y, int n) {\n\tfor (int i = 0; i < n; i++) {\n\t\ty[n] = y[n] * 2 + i;\n\t}\n\ty[n]--;\n}\n",
        "__global__ void f(double *y, int n) {\n\tdouble y_value = y[n];\n\tfor (int i = 0; i < n; i++) {\n"
        "\t\ty_value = y_value * 2 + i;\n\t}\n\ty_value--;\n\ty[n] = y_value;\n}\n",
        id="a-recurrence-and-what-follows-it",
    ),
    pytest.param(
        "swap-thread-roles",
        f"__global__ void f(float* y, int n, int m) {{ {LINE} int j = blockIdx.y * blockDim.y + threadIdx.y; "
        "if (i < n && j < m) y[i * m + j] = 0; }\nvoid g(float* y) { f<<<dim3(3, 4), dim3(16, 8)>>>(y, 40, 30); }\n",
        "__global__ void f(float* y, int n, int m) { int i = blockIdx.y * blockDim.y + threadIdx.y; "
        "int j = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && j < m) y[i * m + j] = 0; }\n"
        "void g(float* y) { f<<<dim3((30 + 16 - 1) / 16, (40 + 8 - 1) / 8), dim3(16, 8)>>>(y, 40, 30); }\n",
        id="swap-and-keep-the-block",
    ),
    pytest.param(
        "coarsen-grid-stride",
        f"__global__ void f(int* y, int n) {{\n  {LINE}\n  if (i >= n) return;\n  if (y[i] < 0) return;\n  y[i] = 1;\n}}\n",
        "__global__ void f(int* y, int n) {\n  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; "
        "i += blockDim.x * gridDim.x) {\n    if (y[i] < 0) continue;\n    y[i] = 1;\n  }\n}\n",
        id="a-guard-that-leaves-becomes-a-loop",
    ),
    pytest.param(
        "unroll-loop",
        "__global__ void f(int* y, int n) {\n  for (int i = 0; i < n; i++) {\n    y[i] = 1;\n  }\n}\n",
        "__global__ void f(int* y, int n) {\n  #pragma unroll 4\n  for (int i = 0; i < n; i++) {\n    y[i] = 1;\n  }\n}\n",
        id="unroll-by-four",
    ),
    pytest.param(
        "unroll-loop",
        "#define N 7\n__global__ void f(int* y) {\n    for (int i = 0; i < N; ++i)\n        y[i] = 1;\n}\n",
        "#define N 7\n__global__ void f(int* y) {\n    #pragma unroll\n    for (int i = 0; i < N; ++i)\n        y[i] = 1;\n}\n",
        id="a-short-loop-in-full",
    ),
    pytest.param(
        "pad-shared",
        "#define T 32\n__global__ void f(float* y) { __shared__ float t[T][T]; t[threadIdx.y][threadIdx.x] = y[0]; "
        "__syncthreads(); y[1] = t[threadIdx.x][threadIdx.y]; }\n",
        "#define T 32\n__global__ void f(float* y) { __shared__ float t[T][T + 1]; t[threadIdx.y][threadIdx.x] = y[0]; "
        "__syncthreads(); y[1] = t[threadIdx.x][threadIdx.y]; }\n",
        id="one-more-column",
    ),
    pytest.param(
        "restrict-readonly",
        "__global__ void f(float* y, float *x, const int* k) { y[threadIdx.x] = x[k[0]]; }\n",
        "__global__ void f(float* __restrict__ y, const float *__restrict__ x, const int* __restrict__ k) "
        "{ y[threadIdx.x] = x[k[0]]; }\n",
        id="const-and-restrict",
    ),
    pytest.param(
        "restrict-readonly",
        "__global__ void f(float* y, float* x);\n__global__ void f(float* y, float* x) { y[0] = x[0]; }\n",
        "__global__ void f(float* y, float* x);\n__global__ void f(float* __restrict__ y, float* __restrict__ x) "
        "{ y[0] = x[0]; }\n",
        id="no-const-where-a-declaration-would-disagree",
    ),
    pytest.param(
        "float-literals",
        "__global__ void f(float* y) { float a = y[0] * 0.5; y[1] = (float)(2.0 - a); if (a > 1e3) y[2] = a * 0.1; }\n",
        "__global__ void f(float* y) { float a = y[0] * 0.5f; y[1] = (float)(2.0f - a); if (a > 1e3f) y[2] = a * 0.1; }\n",
        id="literals-that-a-float-holds",
    ),
    pytest.param(
        "launch-shape",
        f"__global__ void f(float* y, int n) {{ {LINE} if (i < n) y[i] = 0; }}\n"
        "void g(float* y, int n) { f<<<(n + 31) / 32, 32>>>(y, n); }\n",
        f"__global__ void f(float* y, int n) {{ {LINE} if (i < n) y[i] = 0; }}\n"
        "void g(float* y, int n) { f<<<(n + 255) / 256, 256>>>(y, n); }\n",
        id="another-block-size",
    ),
    pytest.param(
        "parallel-row",
        f"""__global__ void f(const float* x, float* y, int n, int m) {{
  {LINE}
  if (i < n) {{
    float s = y[i];
    for (int j = 1; j <= m; j += 2) s += x[i * m + j];  // odd ones
    y[i] = s;
  }}
}}
""",
        """// The sum of `value` over the warp, in every lane.
__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, offset);
  }
  return value;
}

__global__ void f(const float* x, float* y, int n, int m) {
  int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (i < n) {
    float s = y[i];
    if (lane != 0) s = 0;  // the first thread keeps what is there
    for (int j = 1 + lane * 2; j <= m; j += 32 * 2) s += x[i * m + j];  // odd ones
    s = warp_sum(s);
    __syncwarp();
    if (lane == 0) {
      y[i] = s;
    }
  }
}
""",
        id="a-warp-per-row",
    ),
    pytest.param(
        "shuffle-reduction",
        """__global__ void f(float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    for (int k = blockDim.x / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    y[threadIdx.x] = s[0];
}
static void g(float* y) { f<<<1, 64>>>(y); }
""",
        """// The sum of `value` over the warp, in every lane.
__device__ __forceinline__ float warp_sum(float value) {
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffff, value, offset);
    }
    return value;
}

// The sum of `value` over the block, in every thread; all threads must call it.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float partial[32];
    const int lane = threadIdx.x % 32;
    value = warp_sum(value);
    if (lane == 0) {
        partial[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = lane < blockDim.x / 32 ? partial[lane] : 0;
    __syncthreads();  // before `partial` is used again
    return warp_sum(value);
}

__global__ void f(float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    const float total = block_sum(s[threadIdx.x]);
    if (threadIdx.x == 0) {
        s[0] = total;
    }
    __syncthreads();
    y[threadIdx.x] = s[0];
}
static void g(float* y) { f<<<1, 64>>>(y); }
""",
        id="only-a-tree-from-half-the-block",
    ),
    pytest.param(
        "shuffle-reduction",
        """#define T 64
template <typename N> __device__ __forceinline__ float warp_sum(N value);
__global__ void f(float* y) {
    __shared__ float s[T];
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    for (int k = 1; k < T; k *= 2) {
        if (threadIdx.x % (2 * k) == 0) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[0] = s[0];
}
""",
        """#define T 64
template <typename N> __device__ __forceinline__ float warp_sum(N value);
// The sum of `value` over the warp, in every lane.
__device__ __forceinline__ float warp_sum_2(float value) {
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffff, value, offset);
    }
    return value;
}

// The sum of `value` over the block, in every thread; all threads must call it.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float partial[32];
    const int lane = threadIdx.x % 32;
    value = warp_sum_2(value);
    if (lane == 0) {
        partial[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = lane < blockDim.x / 32 ? partial[lane] : 0;
    __syncthreads();  // before `partial` is used again
    return warp_sum_2(value);
}

__global__ void f(float* y) {
    __shared__ float s[T];
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    if (blockDim.x == 64) {
        const float total = block_sum(s[threadIdx.x]);
        if (threadIdx.x == 0) {
            s[0] = total;
        }
    } else {
        for (int k = 1; k < T; k *= 2) {
            if (threadIdx.x % (2 * k) == 0) s[threadIdx.x] += s[threadIdx.x + k];
            __syncthreads();
        }
    }
    if (threadIdx.x == 0) y[0] = s[0];
}
""",
        id="a-tree-over-a-number-of-values",
    ),
]


@pytest.mark.parametrize(("name", "before", "expected"), CASES)
def test_before_and_after(name: str, before: str, expected: str) -> None:
    assert after(name, before) == expected


@pytest.mark.parametrize(("name", "before", "expected"), CASES)
def test_line_ends_are_kept(name: str, before: str, expected: str) -> None:
    rewrite = rewrite_named(name)
    assert rewrite is not None
    context = context_of(before.replace("\n", "\r\n"), allow=("launch", "no-alias"))
    assert rewrite_text(rewrite, context)[0] == expected.replace("\n", "\r\n")


def test_a_function_of_the_file_is_used_again() -> None:
    rows = (
        "__global__ void f%d(const float* x, float* y, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) {\n    float s = 0;\n    for (int j = 0; j < n; j++) s += x[i * n + j];\n    y[i] = s;\n  }\n}\n"
    )
    rewrite = rewrite_named("parallel-row")
    assert rewrite is not None
    once, _ = rewrite_text(rewrite, context_of(rows % 1 + rows % 2, "f1", allow=("launch",)))
    twice, _ = rewrite_text(rewrite, context_of(once, "f2", allow=("launch",)))
    assert twice.count("float warp_sum(float value) {") == 1
    assert twice.count("s = warp_sum(s);") == 2


def test_a_taken_name_is_left_alone() -> None:
    before = (
        "float warp_sum(int);\n__global__ void f(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) {\n    float s = 0;\n    float lane = 2;\n"
        "    for (int j = 0; j < n; j++) s += lane * x[i * n + j];\n    y[i] = s;\n  }\n}\n"
    )
    text = after("parallel-row", before)
    assert "float warp_sum_2(float value) {" in text
    assert "const int lane_2 = threadIdx.x % 32;" in text


def test_a_word_of_another_kernel_is_no_name_for_a_function() -> None:
    """Else that kernel's text would seem to mean the new function, and only one kernel is verified."""
    before = (
        "__global__ void f(const float* x, float* y, int n) {\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (i < n) {\n    float s = 0;\n    for (int j = 0; j < n; j++) s += x[i * n + j];\n    y[i] = s;\n  }\n}\n"
        "__global__ void other(float* y) { float warp_sum = y[0]; y[1] = warp_sum; }\n"
    )
    assert "float warp_sum_2(float value) {" in after("parallel-row", before)
