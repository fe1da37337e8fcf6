// Layer normalisation, one block per row.
// optiml: rows = 500, cols = 768, eps = 1e-5, x[rows * cols]: normal(1, 2), gamma[cols]: normal, beta[cols]: normal, y[rows * cols]
// optiml: block = 128, grid = rows
__global__ void layer_norm(const float* x, const float* gamma, const float* beta, float* y, int rows, int cols, float eps) {
  __shared__ float s[128];
  int t = threadIdx.x;
  const float* in = x + blockIdx.x * cols;
  float sum = 0.f;
  for (int c = t; c < cols; c += 128) sum += in[c];
  s[t] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  float mean = s[0] / cols;
  __syncthreads();
  sum = 0.f;
  for (int c = t; c < cols; c += 128) sum += (in[c] - mean) * (in[c] - mean);
  s[t] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  float scale = 1.f / sqrtf(s[0] / cols + eps);
  for (int c = t; c < cols; c += 128) y[blockIdx.x * cols + c] = (in[c] - mean) * scale * gamma[c] + beta[c];
}
