"""Kernels with one planted bottleneck each, and twins without it: data of the findings' tests."""

from __future__ import annotations

from attrs import frozen


@frozen
class FindingCase:
    """``kind`` is found at ``line`` (from 1) in ``text``, its message holds ``words``, one of its rewrites is
    ``rewrite``; the ``twin`` computes the same without it (None: no twin)."""

    name: str
    kind: str
    line: int
    words: str
    rewrite: str
    text: str
    twin: str | None = None
    needs_compiler: bool = False


TRANSPOSE_HEAD = """// optiml: n = 1024, in[n * n]: normal, out[n * n], block = (32, 8), grid = (n / 32, n / 8)
"""
COPY_HEAD = "// optiml: n = 4194304, in[n]: normal, out[n], block = 256, grid = n / 256\n"
COPY_WIDE_HEAD = "// optiml: n = 4194304, in[n]: normal, out[n], block = 256, grid = n / 1024\n"
ROWS_HEAD = "// optiml: rows = 4096, cols = 512, a[rows * cols]: normal, y[rows], block = 128, grid = rows / 128\n"

CASES: tuple[FindingCase, ...] = (
    FindingCase(
        "strided store",
        "uncoalesced-access",
        5,
        "store of `out`: 28 of 32 bytes per sector wasted in line 5",
        "shared-tile-transpose",
        TRANSPOSE_HEAD
        + """__global__ void k(const float* in, float* out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 8 + threadIdx.y;
  out[x * n + y] = in[y * n + x];
}
""",
        TRANSPOSE_HEAD
        + """__global__ void k(const float* in, float* out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 8 + threadIdx.y;
  out[y * n + x] = in[y * n + x];
}
""",
    ),
    FindingCase(
        "strided load by every row",
        "uncoalesced-access",
        6,
        "load of `a`: 28 of 32 bytes per sector wasted in line 6",
        "parallel-row",
        ROWS_HEAD
        + """__global__ void k(const float* a, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0.0f;
  for (int c = 0; c < cols; c++)
    s += a[r * cols + c];
  y[r] = s;
}
""",
        ROWS_HEAD
        + """__global__ void k(const float* a, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0.0f;
  for (int c = 0; c < cols; c++)
    s += a[c * rows + r];
  y[r] = s;
}
""",
    ),
    FindingCase(
        "column of a square tile",
        "shared-bank-conflict",
        6,
        "load of shared memory takes 32.0 passes where 1 would do in line 6",
        "pad-shared",
        TRANSPOSE_HEAD.replace("(32, 8)", "(32, 32)").replace("n / 8)", "n / 32)")
        + """__global__ void k(const float* in, float* out, int n) {
  __shared__ float t[32][32];
  t[threadIdx.y][threadIdx.x] = in[(blockIdx.y * 32 + threadIdx.y) * n + blockIdx.x * 32 + threadIdx.x];
  __syncthreads();
  float v = t[threadIdx.x][threadIdx.y];
  out[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = v;
}
""",
        TRANSPOSE_HEAD.replace("(32, 8)", "(32, 32)").replace("n / 8)", "n / 32)")
        + """__global__ void k(const float* in, float* out, int n) {
  __shared__ float t[32][33];
  t[threadIdx.y][threadIdx.x] = in[(blockIdx.y * 32 + threadIdx.y) * n + blockIdx.x * 32 + threadIdx.x];
  __syncthreads();
  float v = t[threadIdx.x][threadIdx.y];
  out[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = v;
}
""",
    ),
    FindingCase(
        "a sum kept in memory",
        "redundant-global-traffic",
        6,
        "each byte of `y` is requested",
        "register-accumulator",
        ROWS_HEAD
        + """__global__ void k(const float* a, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  y[r] = 0.0f;
  for (int c = 0; c < cols; c++)
    y[r] += a[c * rows + r];
}
""",
        ROWS_HEAD
        + """__global__ void k(const float* a, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0.0f;
  for (int c = 0; c < cols; c++)
    s += a[c * rows + r];
  y[r] = s;
}
""",
    ),
    FindingCase(
        "a matrix product without tiles",
        "redundant-global-traffic",
        8,
        "is requested",
        "register-tile-matmul",
        """// optiml: n = 256, a[n * n]: normal, b[n * n]: normal, c[n * n], block = (32, 8), grid = (n / 32, n / 8)
__global__ void k(const float* a, const float* b, float* c, int n) {
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 8 + threadIdx.y;
  float s = 0.0f;
  for (int i = 0; i < n; i++)
    // each row and column is read by many threads
    s += a[y * n + i] * b[i * n + x];
  c[y * n + x] = s;
}
""",
    ),
    FindingCase(
        "a large static array",
        "low-occupancy",
        2,
        "bytes of shared memory a block leave room for",
        "launch-shape",
        """// optiml: n = 1048576, in[n]: normal, out[n], block = 64, grid = n / 64
__global__ void k(const float* in, float* out, int n) {
  __shared__ float t[11000];
  int i = blockIdx.x * 64 + threadIdx.x;
  t[threadIdx.x] = in[i];
  __syncthreads();
  out[i] = t[63 - threadIdx.x];
}
""",
        """// optiml: n = 1048576, in[n]: normal, out[n], block = 256, grid = n / 256
__global__ void k(const float* in, float* out, int n) {
  __shared__ float t[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  t[threadIdx.x] = in[i];
  __syncthreads();
  out[i] = t[255 - threadIdx.x];
}
""",
        needs_compiler=True,
    ),
    FindingCase(
        "tiny blocks",
        "low-occupancy",
        2,
        "blocks of only 32 threads",
        "launch-shape",
        """// optiml: n = 1048576, in[n]: normal, out[n], block = 32, grid = n / 32
__global__ void k(const float* in, float* out, int n) {
  int i = blockIdx.x * 32 + threadIdx.x;
  out[i] = in[i];
}
""",
        COPY_HEAD
        + """__global__ void k(const float* in, float* out, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = in[i];
}
""",
    ),
    FindingCase(
        "an array that registers cannot hold",
        "register-spill",
        6,
        "bytes are spilled",
        "launch-shape",
        """// optiml: n = 65536, in[n]: normal, out[n], block = 1024, grid = n / 1024
__global__ void __launch_bounds__(1024, 2) k(const float* in, float* out, int n) {
  float v[64];
  for (int j = 0; j < 64; j++) v[j] = in[(blockIdx.x * 1024 + threadIdx.x + j * 977) % n];
  for (int r = 0; r < 8; r++)
    for (int j = 0; j < 64; j++) v[j] = v[j] * v[(j * 7 + 3) % 64] + v[(j * 5 + r) % 64];
  float s = 0.0f;
  for (int j = 0; j < 64; j++) s += v[j];
  out[blockIdx.x * 1024 + threadIdx.x] = s;
}
""",
        needs_compiler=True,
    ),
    FindingCase(
        "a quarter of the lanes",
        "divergence",
        6,
        "only 8.0 of 32 lanes a warp take part in line 6",
        "shuffle-reduction",
        COPY_HEAD
        + """__global__ void k(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = in[i];
  if (threadIdx.x % 4 == 0)
    for (int j = 0; j < 16; j++) v += 2.0f * in[(i + j * 32) & (n - 1)];
  out[i] = v;
}
""",
        COPY_HEAD
        + """__global__ void k(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = in[i];
  if (threadIdx.x < 64)
    for (int j = 0; j < 16; j++) v += 2.0f * in[(i + j * 32) & (n - 1)];
  out[i] = v;
}
""",
    ),
    FindingCase(
        "one counter for all",
        "atomic-contention",
        4,
        "atomic updates go to few addresses",
        "privatize-atomics",
        """// optiml: n = 1048576, in[n]: uniform(0, 64), bins[64]: zeros, block = 256, grid = n / 256
__global__ void k(const int* in, int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&bins[in[i]], 1);
}
""",
        """// optiml: n = 1048576, in[n]: uniform(0, 64), bins[64]: zeros, block = 256, grid = 132
__global__ void k(const int* in, int* bins, int n) {
  __shared__ int own[64];
  if (threadIdx.x < 64) own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&own[in[i]], 1);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}
""",
    ),
    FindingCase(
        "all lanes in one shared cell",
        "atomic-contention",
        7,
        "97 % of the lanes of a shared atomic meet an address that is taken",
        "shuffle-reduction",
        """// optiml: n = 1048576, in[n]: uniform(0, 64), sums[n / 256], block = 256, grid = n / 256
__global__ void k(const int* in, int* sums, int n) {
  __shared__ int total;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, in[i]);
  __syncthreads();
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}
""",
    ),
    FindingCase(
        "too few blocks",
        "latency-bound-launch",
        2,
        "8 blocks leave 124 of 132 multiprocessors without work",
        "parallel-row",
        """// optiml: rows = 1024, cols = 512, a[rows * cols]: normal, y[rows], block = 128, grid = rows / 128
__global__ void k(const float* a, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0.0f;
  for (int c = 0; c < cols; c++) s += a[c * rows + r];
  y[r] = s;
}
""",
        """// optiml: rows = 262144, cols = 16, a[rows * cols]: normal, y[rows], block = 128, grid = rows / 128
__global__ void k(const float* a, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0.0f;
  for (int c = 0; c < cols; c++) s += a[c * rows + r];
  y[r] = s;
}
""",
    ),
    FindingCase(
        "a literal without its suffix",
        "accidental-double",
        4,
        "`0.3` is a double",
        "float-literals",
        COPY_HEAD
        + """__global__ void k(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * 0.3 + 0.1f;
}
""",
        COPY_HEAD
        + """__global__ void k(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * 0.3f + 0.1f;  // not 0.3
}
""",
        needs_compiler=True,
    ),
    FindingCase(
        "one float a thread",
        "narrow-access",
        4,
        "moves 4 bytes a lane; 16 fit into one instruction",
        "vectorize-access",
        COPY_HEAD.replace("4194304", "67108864")
        + """__global__ void k(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i];
}
""",
        COPY_WIDE_HEAD.replace("4194304", "67108864")
        + """__global__ void k(const float* in, float* out, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  *(float4*)(out + i) = *(const float4*)(in + i);
}
""",
    ),
    FindingCase(
        "one load at a time",
        "memory-latency",
        5,
        "of their time waiting for loads of `x` in line 5",
        "load-ahead",
        """// optiml: rows = 264, cols = 65536, x[rows * cols]: normal, y[rows], block = 128, grid = rows
__global__ void k(const float* x, float* y, int cols) {
  float s = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    s += x[blockIdx.x * cols + c];
  }
  atomicAdd(&y[blockIdx.x], s);
}
""",
        """// optiml: rows = 264, cols = 65536, x[rows * cols]: normal, y[rows], block = 1024, grid = rows
__global__ void k(const float* x, float* y, int cols) {
  float s = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 8 * blockDim.x) {
    float v[8];
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = x[blockIdx.x * cols + c + k * blockDim.x];
#pragma unroll
    for (int k = 0; k < 8; k++) s += v[k];
  }
  atomicAdd(&y[blockIdx.x], s);
}
""",
        needs_compiler=True,
    ),
    FindingCase(
        "a row read twice",
        "repeated-pass",
        5,
        "`x` is read in 2 passes over it in line 5",
        "online-softmax",
        """// optiml: rows = 8192, cols = 16384, x[rows * cols]: normal, y[rows], block = 256, grid = rows
__global__ void k(const float* x, float* y, int cols) {
  float a = -INFINITY, b = 0.0f;
  for (int c = threadIdx.x; c < cols; c += 256) a = fmaxf(a, x[blockIdx.x * cols + c]);
  for (int c = threadIdx.x; c < cols; c += 256) b += expf(x[blockIdx.x * cols + c] - a);
  y[blockIdx.x] = b;
}
""",
        """// optiml: rows = 8192, cols = 16384, x[rows * cols]: normal, y[rows], block = 256, grid = rows
__global__ void k(const float* x, float* y, int cols) {
  float a = -INFINITY;
  for (int c = threadIdx.x; c < cols; c += 256) a = fmaxf(a, x[blockIdx.x * cols + c]);
  y[blockIdx.x] = a;
}
""",
    ),
    FindingCase(
        "a tree of barriers",
        "barrier-bound",
        5,
        "barriers a block take about",
        "shuffle-reduction",
        """// optiml: n = 1048576, in[n]: normal, sums[n / 1024], block = 1024, grid = n / 1024
__global__ void k(const float* in, float* sums, int n) {
  __shared__ float p[1024];
  p[threadIdx.x] = in[blockIdx.x * 1024 + threadIdx.x];
  __syncthreads();
  for (int s = 512; s > 0; s /= 2) {
    if (threadIdx.x < s) p[threadIdx.x] += p[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = p[0];
}
""",
        """// optiml: n = 1048576, in[n]: normal, sums[n / 32], block = 256, grid = n / 256
__global__ void k(const float* in, float* sums, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float v = in[i];
  for (int s = 16; s > 0; s /= 2) v += __shfl_down_sync(0xffffffffu, v, s);
  if (threadIdx.x % 32 == 0) sums[i / 32] = v;
}
""",
    ),
)
