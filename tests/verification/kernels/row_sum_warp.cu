// One warp per row, summed by shuffles.
// optiml: rows = 2000, cols = 300, x[rows * cols]: normal, sums[rows]
// optiml: block = 128, grid = ceil_div(rows, 4)
__global__ void row_sum_warp(const float* x, float* sums, int rows, int cols) {
  int row = blockIdx.x * 4 + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  float v = 0.f;
  for (int c = lane; c < cols; c += 32) v += x[row * cols + c];
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
  if (lane == 0) sums[row] = v;
}
