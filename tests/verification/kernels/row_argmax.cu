// The position of the first largest value of each row, and the value.
// optiml: rows = 800, cols = 200, x[rows * cols]: normal, best[rows], where[rows]
// optiml: block = 128, grid = ceil_div(rows, 128)
__global__ void row_argmax(const float* x, float* best, int* where, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float value = x[row * cols];
  int place = 0;
  for (int c = 1; c < cols; c++) {
    if (x[row * cols + c] > value) {
      value = x[row * cols + c];
      place = c;
    }
  }
  best[row] = value;
  where[row] = place;
}
