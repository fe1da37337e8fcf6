// optiml: rows = 2048, entries = 20000, starts[rows + 1]: offsets(20000), columns[entries]: index(4096), values[entries]: uniform(0, 1)
// optiml: x[4096]: uniform(0, 1), y[rows], block = 128, grid = ceil_div(rows, 128)
__global__ void ragged_rows(const int* starts, const int* columns, const float* values, const float* x, float* y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int k = starts[row]; k < starts[row + 1]; k++)
    sum += values[k] * x[columns[k]];
  y[row] = sum;
}
