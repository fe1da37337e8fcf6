"""As test_properties: kernels before and after the smaller rewrites, on sizes that no block divides."""

from __future__ import annotations

import pytest

from rewrites.running import check_agrees
from rewrites.test_properties import MATRICES, ODD, PRODUCT, ROUNDING, SHAPES, TRANSPOSE, lengths, named

ELEMENTS = """
// optiml: n = 100, x[n]: normal, y[n]: normal, z[n], a = 0.5
// optiml: block = 128, grid = ceil_div(n, 128)
__global__ void f(int n, float a, const float* x, float* y, float* z) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float t = x[i] * a;
    y[i] = y[i] + t;
    z[i] = i % 3 == 0 ? t : expf(t);
  }
}
"""
LEAVING = """
// optiml: n = 100, x[n + 1]: uniform(0, 100), y[n]
// optiml: block = 64, grid = ceil_div(n, 64)
__global__ void f(const int* x, double* y, unsigned int n) {
  const unsigned int i = threadIdx.x + blockDim.x * blockIdx.x;
  if (i >= n) return;
  // neighbours differ by less
  if (x[i + 1] > 50) {
    y[i] = 1.0;
    return;
  }
  y[i] = x[i];
}
"""
PLANE = """
// optiml: rows = 20, cols = 30, x[rows * cols]: normal, y[rows * cols]
// optiml: block = (8, 16), grid = (ceil_div(cols, 8), ceil_div(rows, 16))
__global__ void f(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (c < cols && r < rows && r > 0) y[r * cols + c] = x[(r - 1) * cols + c];
}
"""


@pytest.mark.parametrize("text", [ELEMENTS, LEAVING], ids=["elements", "leaving"])
def test_coarsen_grid_stride(text: str) -> None:
    check_agrees(named("coarsen-grid-stride"), text, lengths(*ODD))


@pytest.mark.parametrize(("text", "sizes"), [(ELEMENTS, lengths(*ODD)), (PLANE, SHAPES)], ids=["line", "plane"])
def test_launch_shape(text: str, sizes: tuple[dict[str, int], ...]) -> None:
    check_agrees(named("launch-shape"), text, sizes)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (PRODUCT % ("M", "N", "M", "N", "float s = 0; for (int i = 0; i < K; ++i) s += A[x * K + i] * B[i * N + y];"
                    " C[x * N + y] = alpha * s;"), MATRICES[:4]),
        (PLANE.replace("r * cols + c", "c * rows + r").replace("(r - 1) * cols + c", "c * rows + r - 1"), SHAPES),
    ],
    ids=["product", "plane"],
)  # fmt: skip
def test_swap_thread_roles(text: str, sizes: tuple[dict[str, int], ...]) -> None:
    check_agrees(named("swap-thread-roles"), text, sizes)


MIXED = (
    ELEMENTS.replace("z[n]", "z[n]: index(7)").replace("float* z", "unsigned char* z").replace("= i % 3", "+= i % 3")
)
IN_PLACE = """
// optiml: n = 100, x[n]: normal, table[8]: normal
// optiml: block = 32, grid = ceil_div(n, 32)
__global__ void f(double* x, const double* table, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * table[i % 8];
}
"""


@pytest.mark.parametrize("text", [ELEMENTS, MIXED, IN_PLACE], ids=["floats", "mixed", "in-place"])
def test_vectorize_elements(text: str) -> None:
    check_agrees(named("vectorize-access"), text, lengths(*ODD), tolerance=ROUNDING)


SHARED_LOOPS = """
// optiml: rows = 5, cols = 48, in[rows * cols]: normal, out[rows * cols], total[rows]
// optiml: block = 64, grid = rows
__global__ void f(const float* in, float* out, float* total, int rows, int cols) {
  __shared__ float sum;
  const float* x = in + blockIdx.x * cols;
  float* y = out + blockIdx.x * cols;
  if (threadIdx.x == 0) sum = 0.0f;
  __syncthreads();
  float own = 0.0f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) {
    y[j] = 2.0f * x[j];
    own += y[j] + j;
  }
  atomicAdd(&sum, own);
  __syncthreads();
  for (int j = threadIdx.x; j < cols; j += blockDim.x) {
    y[j] /= sum;
  }
  if (threadIdx.x == 0) total[blockIdx.x] = sum;
}
"""
GRID_STRIDE = """
// optiml: n = 100, x[n]: normal, y[n]
// optiml: block = 32, grid = 2
__global__ void f(const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    y[i] = 3.0f * x[i] + i;
  }
}
"""


def test_vectorize_rows() -> None:
    sizes = tuple({"rows": r, "cols": c} for r, c in ((1, 1), (3, 31), (2, 64), (2, 300), (1, 100)))
    check_agrees(named("vectorize-access"), SHARED_LOOPS, sizes, tolerance=1e-5)


def test_vectorize_grid_stride() -> None:
    check_agrees(named("vectorize-access"), GRID_STRIDE, lengths(*ODD, 64))


def test_vectorize_a_sum_over_the_launch() -> None:
    """One sum of everything may take its elements in any order."""
    text = GRID_STRIDE.replace("  for (int i", "  float s = 0.0f;\n  for (int i").replace("y[n]", "y[1]: zeros")
    text = text.replace("    y[i] = 3.0f * x[i] + i;\n  }", "    s += x[i];\n  }\n  atomicAdd(y, s);")
    check_agrees(named("vectorize-access"), text, lengths(*ODD, 64), tolerance=1e-5)


SUM = """
// optiml: n = 100, blocks = 3, x[n]: normal, y[blocks]
// optiml: block = 64, grid = blocks, shared = 4 * 64
__global__ void f(const float* x, float* y, int n, int blocks) {
  extern __shared__ float s[];
  int t = threadIdx.x;
  float own = 0.0f;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) own += x[i];
  s[t] = own;
  __syncthreads();
  %s
  if (t == 0) y[blockIdx.x] = s[0];
}
"""
TREES = {
    "halved": "for (int k = blockDim.x / 2; k > 0; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }",
    "barrier-first": "for (unsigned int k = blockDim.x / 2; k >= 1; k /= 2) { __syncthreads(); "
    "if (threadIdx.x < k) { s[t] = s[t + k] + s[t]; } }",
    "doubled": "for (int k = 1; k < blockDim.x; k *= 2) { if (t % (2 * k) == 0) { s[t] += s[t + k]; } "
    "__syncthreads(); }",
    "largest": "for (int k = blockDim.x >> 1; k > 0; k = k / 2) { "
    "if (t < k) s[t] = fmaxf(s[t], s[t + k]); __syncthreads(); }",
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
def test_shuffle_reduction(tree: str) -> None:
    check_agrees(named("shuffle-reduction"), SUM % tree, lengths(*ODD), tolerance=ROUNDING)


@pytest.mark.parametrize("block", [16, 32, 48, 1024])
def test_shuffle_reduction_keeps_its_guard_at_other_block_sizes(block: int) -> None:
    text = (SUM % TREES["halved"]).replace("block = 64", f"block = {block}").replace("4 * 64", f"4 * {block}")
    check_agrees(named("shuffle-reduction"), text, lengths(1, 97, 1000), tolerance=ROUNDING)


def test_pad_shared() -> None:
    text = """
// optiml: n = 3, x[1024 * n]: normal, y[1024 * n]
// optiml: block = (32, 32), grid = n
__global__ void f(const float* x, float* y, int n) {
  __shared__ float t[32][32];
  t[threadIdx.y][threadIdx.x] = x[blockIdx.x * 1024 + threadIdx.y * 32 + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 1024 + threadIdx.y * 32 + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
"""
    check_agrees(named("pad-shared"), text, lengths(1, 3))


def test_float_literals() -> None:
    text = ELEMENTS.replace("x[i] * a", "x[i] * 0.5").replace("expf(t)", "(float)(t - 1.0)")
    check_agrees(named("float-literals"), text, lengths(*ODD))


def test_restrict_readonly() -> None:
    check_agrees(named("restrict-readonly"), ELEMENTS, lengths(*ODD), allow=("no-alias",))


def test_unroll_loop() -> None:
    text = LEAVING.replace("  y[i] = x[i];", "  for (int k = 0; k < n; k += 3) {\n    y[i] += x[k];\n  }")
    check_agrees(named("unroll-loop"), text, lengths(*ODD))


def test_a_chain_of_rewrites_still_follows_its_launch() -> None:
    """Rows to warps, then vectors: the second step starts from what the first one wrote."""
    from rewrites.running import rewritten_texts
    from rewrites.test_properties import NORMALISE

    text = NORMALISE.replace("int j;", "").replace("(j = 0", "(int j = 0")
    _, text, _ = next(
        rewritten_texts(named("parallel-row"), NORMALISE.replace("int j;", "").replace("(j = 0", "(int j = 0"))
    )
    check_agrees(named("vectorize-access"), text, SHAPES, tolerance=ROUNDING)


def test_transposes_after_other_block_shapes() -> None:
    from rewrites.running import rewritten_texts

    for _, text, _ in rewritten_texts(named("launch-shape"), TRANSPOSE):
        check_agrees(named("shared-tile-transpose"), text, SHAPES[:3], most_options=1)


HISTOGRAM = """
// optiml: n = 500, x[n]: uniform(0, 300), h[300]: zeros
// optiml: block = %s, grid = ceil_div(n, 64)
__global__ void f(const unsigned short* x, unsigned int* h, int n) {
  %s
}
"""
COUNTS = {
    "leaving": (
        "64",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; /* one */ atomicAdd(&h[x[i]], 1u);",
    ),
    "two": (
        "(32, 2)",
        "int i = blockIdx.x * 64 + threadIdx.y * 32 + threadIdx.x; if (i < n) "
        "{ atomicAdd(&h[x[i]], 1u); atomicAdd(h + x[i] / 2, 2u); }",
    ),
    "one": ("64", "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n && x[i] > 7) atomicAdd(h, 1u);"),
}


@pytest.mark.parametrize("parts", COUNTS.values(), ids=COUNTS.keys())
def test_privatize_atomics(parts: tuple[str, str]) -> None:
    check_agrees(named("privatize-atomics"), HISTOGRAM % parts, lengths(*ODD))


COLUMN_SUMS = """
// optiml: rows = 70, cols = 40, x[rows * cols]: normal, mean[cols], spread[cols]: normal
// optiml: block = 64, grid = ceil_div(cols, 64)
__global__ void f(const float* x, float* mean, float* spread, int rows, int cols) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  %s
}
"""
COLUMNS = {
    "surrounded": """if (j < cols) {
    float m = 0.25f;
    for (int i = 0; i < rows; i++) {
      m += x[i * cols + j];
    }
    m /= rows;
    mean[j] = m;
    float v = 0.0f;
    for (int i = 0; i < rows; i++) v += (x[i * cols + j] - m) * (x[i * cols + j] - m);
    // add to what is there
    spread[j] += v;
  }""",
    "leaving": """if (j >= cols) return;
  float largest = -1e30f;
  for (int i = 0; i < rows; ++i) if (x[i * cols + j] > largest) largest = x[i * cols + j];
  mean[j] = largest; spread[j] = 0.0f;""",
}
BLOCK_PER_COLUMN = """
// optiml: rows = 70, cols = 40, x[rows * cols]: normal, sums[cols]: normal
// optiml: block = 64, grid = cols, shared = 4 * 64
__global__ void f(const float* x, float* sums, int rows, int cols) {
  extern __shared__ float part[];
  int o = blockIdx.x;
  int t = threadIdx.x;
  float own = 0.0f;
  for (int i = t; i < rows; i += blockDim.x) own += x[i * cols + o];
  part[t] = own;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k /= 2) {
    if (t < k) part[t] += part[t + k];
    __syncthreads();
  }
  if (t == 0) sums[o] += part[0];
}
void g(float* a, float* b, int n, int m) { f<<<m, 64, 4 * 64>>>(a, b, n, m); }
"""


@pytest.mark.parametrize("work", COLUMNS.values(), ids=COLUMNS.keys())
def test_parallel_column(work: str) -> None:
    check_agrees(named("parallel-column"), COLUMN_SUMS % work, SHAPES, tolerance=1e-5)


def test_parallel_column_of_a_block_per_column() -> None:
    check_agrees(named("parallel-column"), BLOCK_PER_COLUMN, SHAPES, tolerance=1e-5)


def test_vectors_in_rows_whose_pointer_is_declared_late() -> None:
    text = (
        SHARED_LOOPS.replace("  float* y = out + blockIdx.x * cols;\n", "")
        .replace("    y[j] = 2.0f * x[j];\n    own += y[j] + j;\n", "    own += 2.0f * x[j] + j;\n")
        .replace("  atomicAdd", "  float* y = out + blockIdx.x * cols;\n  atomicAdd")
        .replace("y[j] /= sum", "y[j] = x[j] / sum")
    )
    sizes = tuple({"rows": r, "cols": c} for r, c in ((3, 31), (2, 64)))
    check_agrees(named("vectorize-access"), text, sizes, tolerance=1e-5)
