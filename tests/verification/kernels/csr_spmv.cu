// Sparse matrix times vector, one thread per row.
// optiml: rows = 3000, cols = 2500, nnz = 40000, offsets[rows + 1]: offsets(nnz), columns[nnz]: index(cols)
// optiml: values[nnz]: normal, x[cols]: normal, y[rows]
// optiml: block = 128, grid = ceil_div(rows, 128)
__global__ void csr_spmv(const int* offsets, const int* columns, const float* values, const float* x, float* y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.f;
  for (int k = offsets[row]; k < offsets[row + 1]; k++) sum += values[k] * x[columns[k]];
  y[row] = sum;
}
