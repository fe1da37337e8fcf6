// y = A x, one thread per row.
// optiml: rows = 1000, cols = 400, a[rows * cols]: normal, x[cols]: normal, y[rows]
// optiml: block = 128, grid = ceil_div(rows, 128)
__global__ void mat_vec(const float* a, const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    float sum = 0.f;
    for (int c = 0; c < cols; c++) sum += a[row * cols + c] * x[c];
    y[row] = sum;
  }
}
