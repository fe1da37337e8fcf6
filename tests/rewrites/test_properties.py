"""Original and rewritten kernels leave the same behind, on sizes that no block divides."""

from __future__ import annotations

import pytest

from optiml_core.rewrites import rewrite_named
from optiml_core.rewrites.context import Rewrite
from rewrites.running import check_agrees

ODD = (1, 7, 31, 33, 97, 1000)
ROUNDING = 2e-6


def named(name: str) -> Rewrite:
    found = rewrite_named(name)
    assert found is not None
    return found


def lengths(*values: int, name: str = "n") -> tuple[dict[str, int], ...]:
    return tuple({name: value} for value in values)


def areas(*pairs: tuple[int, int], names: tuple[str, str] = ("rows", "cols")) -> tuple[dict[str, int], ...]:
    return tuple({names[0]: first, names[1]: second} for first, second in pairs)


SHAPES = areas((1, 1), (7, 31), (33, 1), (1, 97), (31, 33), (65, 100))

TRANSPOSE = """
// optiml: rows = 64, cols = 48, in[rows * cols]: normal, out[rows * cols]
// optiml: block = (16, 16), grid = (ceil_div(cols, 16), ceil_div(rows, 16))
__global__ void t(const float* in, float* out, int rows, int cols) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < cols && y < rows) {
    out[x * rows + y] = 2.0f * in[y * cols + x];
  }
}
"""


def test_shared_tile_transpose() -> None:
    check_agrees(named("shared-tile-transpose"), TRANSPOSE, SHAPES)


TILE_LOOP = """
#define TILE 32
const int ROWS = 8;
// optiml: w = 2, h = 3, in[w * h * 1024]: normal, out[w * h * 1024]
// optiml: block = (32, %d), grid = (w, h)
__global__ void t(const float* in, float* out, int w, int h) {
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  int from = %s;
  int to = %s;
  for (int j = 0; j < TILE; j += ROWS)
    out[to + j%s] = in[from + j%s];
}
"""
LOADS_IN_ROWS = (8, "x + w * TILE * y", "y + h * TILE * x", "", " * w * TILE")
LOADS_IN_COLUMNS = (8, "y + h * TILE * x", "x + w * TILE * y", " * w * TILE", "")


@pytest.mark.parametrize("parts", [LOADS_IN_ROWS, LOADS_IN_COLUMNS, (4, *LOADS_IN_ROWS[1:])])
def test_shared_tile_transpose_of_a_tile_loop(parts: tuple[object, ...]) -> None:
    # With 4 rows of threads the original leaves half of the elements alone: the guard keeps that path.
    check_agrees(named("shared-tile-transpose"), TILE_LOOP % parts, areas((1, 1), (2, 3), names=("w", "h")))


SOFTMAX = """
// optiml: rows = 8, cols = 48, in[rows * cols]: normal, out[rows * cols]
// optiml: block = 64, grid = ceil_div(rows, 64)
__global__ void softmax(float* out, const float* in, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows) {
    const float* x = in + i * cols;
    float* y = out + i * cols;
    float largest = -INFINITY;
    for (int j = 0; j < cols; j++) {
      if (x[j] > largest) {
        largest = x[j];
      }
    }
    double sum = 0.0;
    for (int j = 0; j < cols; j++) {
      y[j] = expf(x[j] - largest);
      sum += y[j];
    }
    for (int j = 0; j < cols; j++) {
      y[j] /= (float)sum;
    }
  }
}
"""

NORMALISE = """
// optiml: rows = 8, cols = 48, in[rows * cols]: normal, out[rows * cols], mean[rows], scale[cols]: normal
// optiml: block = 32, grid = ceil_div(rows, 32)
__global__ void normalise(float* out, float* mean, const float* in, const float* scale, int rows, int cols) {
  int row = threadIdx.x + blockIdx.x * blockDim.x;
  if (row >= rows) return;
  int j;
  float m = 0.5f;
  for (j = 0; j < cols; ++j) m += in[row * cols + j];
  m = m / cols;
  float v = 0.0f;
  for (j = 0; j < cols; j += 1) {
    float d = in[row * cols + j] - m;
    v = v + d * d;
  }
  float s = rsqrtf(v / cols + 1e-5f);
  for (int k = 0; k < cols; k++) out[row * cols + k] = s * (in[row * cols + k] - m) * scale[k];
  mean[row] = m;
}
"""

SPARSE = """
// optiml: rows = 8, entries = 5 * rows, start[rows + 1]: offsets(entries), column[entries]: index(rows)
// optiml: value[entries]: normal, x[rows]: normal, y[rows]: normal
// optiml: block = 64, grid = ceil_div(rows, 64)
__global__ void multiply(int rows, const int* start, const int* column, const float* value, const float* x, float* y) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    float sum = y[row];
    for (int k = start[row]; k < start[row + 1]; k++) {
      sum += value[k] * x[column[k]];
    }
    y[row] = sum;
  }
}
"""

COUNTING = """
// optiml: rows = 8, cols = 48, in[rows * cols]: uniform(0, 9), hits[rows], least[rows]
// optiml: block = 64, grid = ceil_div(rows, 64)
__global__ void count(const int* in, int* hits, int* least, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    int n = 0;
    int smallest = 1000;
    for (int j = 0; j < cols; j++) {
      if (in[row * cols + j] > 4) n++;
      smallest = min(smallest, in[row * cols + j]);
    }
    hits[row] = n;
    least[row] = smallest;
    hits[row] += smallest;
  }
}
"""


@pytest.mark.parametrize(
    ("text", "tolerance"),
    [(SOFTMAX, ROUNDING), (NORMALISE, ROUNDING), (COUNTING, 0.0)],
    ids=["softmax", "normalise", "count"],
)
def test_parallel_row(text: str, tolerance: float) -> None:
    check_agrees(named("parallel-row"), text, SHAPES, tolerance=tolerance)


def test_parallel_row_of_a_sparse_matrix() -> None:
    check_agrees(named("parallel-row"), SPARSE, lengths(1, 7, 33, 300, name="rows"), tolerance=ROUNDING)


ACCUMULATE = """
// optiml: rows = 8, cols = 48, m[rows * cols]: normal, x[cols]: normal, y[rows]: normal
// optiml: block = 64, grid = ceil_div(rows, 64)
__global__ void f(const float* m, const float* x, float* y, int rows, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows) {
    y[i] *= 0.5f;
    for (int j = 0; j < cols; j++) {
      y[i] += m[i * cols + j] * x[j];
    }
    if (y[i] < 0.0f) y[i] = -y[i];
  }
}
"""


def test_register_accumulator() -> None:
    check_agrees(named("register-accumulator"), ACCUMULATE, SHAPES, allow=("no-alias",))


PRODUCT = """
// optiml: M = 40, N = 30, K = 50, alpha = 1.5, beta = 0.5, A[M * K]: normal, B[K * N]: normal, C[M * N]: normal
// optiml: block = (16, 16), grid = (ceil_div(%s, 16), ceil_div(%s, 16))
__global__ void gemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
  const unsigned int x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < %s && y < %s) {
    %s
  }
}
"""
BY_ROWS = ("M", "N", "M", "N")  # threadIdx.x runs down the rows
BY_COLUMNS = ("N", "M", "N", "M")
MATRICES = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((1, 1, 1), (7, 31, 33), (33, 1, 97), (65, 130, 9), (129, 67, 40))
)


@pytest.mark.parametrize(
    "text",
    [
        PRODUCT
        % (
            *BY_ROWS,
            """float tmp = 0.0;
    for (int i = 0; i < K; ++i) {
      tmp += A[x * K + i] * B[i * N + y];
    }
    // scale and add
    C[x * N + y] = alpha * tmp + beta * C[x * N + y];""",
        ),
        PRODUCT
        % (
            *BY_COLUMNS,
            """int k;
    float sum = C[y * N + x];
    sum *= beta;
    for (k = 0; k < K; k++) sum += alpha * A[k * M + y] * B[x * K + k];
    C[y * N + x] = sum;""",
        ),
        PRODUCT
        % (
            *BY_COLUMNS,
            """double sum = 0;
    for (int k = 0; k < K; k++) sum += A[y * K + k] * A[(M - 1 - y) * K + k] * B[k * N + x];
    C[y * N + x] = sum;
    if (sum < 0.0) C[y * N + x] = -sum;""",
        ),
        PRODUCT
        % (
            *BY_ROWS,
            """float sum = A != nullptr ? C[x * N + y] : 0.0f;
    const float* left = A + x * K;
    const int step = N;
    const float* right = B + y;
    float* own = C + x * N;
    for (int k = 0; k < K; k++) sum += left[k] * right[k * step];
    own[y] = sum;""",
        ),
        (
            PRODUCT
            % (*BY_ROWS, "float s = 0; for (int i = 0; i < K; ++i) s += A[x * K + i] * B[i * N + y]; C[x * N + y] = s;")
        )
        .replace("blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x * 16 + (threadIdx.x / 16)")
        .replace("blockIdx.y * blockDim.y + threadIdx.y", "blockIdx.y * 16 + (threadIdx.x % 16)")
        .replace("block = (16, 16)", "block = 256"),
    ],
    ids=["naive", "both-transposed", "three-operands", "rows-by-pointer", "folded"],
)
def test_register_tile_matmul(text: str) -> None:
    check_agrees(named("register-tile-matmul"), text, MATRICES, tolerance=ROUNDING, most_options=3)
