// Softmax over the rows, one thread per row.
// optiml: rows = 1024, cols = 500, x[rows * cols]: normal(0, 3), y[rows * cols]
// optiml: block = 128, grid = ceil_div(rows, 128)
__global__ void softmax(const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* in = x + row * cols;
  float* out = y + row * cols;
  float largest = in[0];
  for (int c = 1; c < cols; c++) largest = fmaxf(largest, in[c]);
  float sum = 0.f;
  for (int c = 0; c < cols; c++) sum += expf(in[c] - largest);
  for (int c = 0; c < cols; c++) out[c] = expf(in[c] - largest) / sum;
}
