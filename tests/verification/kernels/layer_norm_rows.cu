// Layer normalisation, one thread per row; mean and reciprocal deviation are kept.
// optiml: rows = 900, cols = 300, x[rows * cols]: normal, gamma[cols]: normal, beta[cols]: normal
// optiml: y[rows * cols], means[rows], scales[rows]
// optiml: block = 128, grid = ceil_div(rows, 128)
__global__ void layer_norm_rows(const float* x, const float* gamma, const float* beta, float* y, float* means, float* scales,
                                int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* in = x + row * cols;
  float mean = 0.f;
  for (int c = 0; c < cols; c++) mean += in[c];
  mean /= cols;
  float variance = 0.f;
  for (int c = 0; c < cols; c++) variance += (in[c] - mean) * (in[c] - mean);
  variance /= cols;
  float scale = rsqrtf(variance + 1e-5f);
  for (int c = 0; c < cols; c++) y[row * cols + c] = (in[c] - mean) * scale * gamma[c] + beta[c];
  means[row] = mean;
  scales[row] = scale;
}
