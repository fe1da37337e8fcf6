// Inclusive scan of each block's 128 values (Hillis and Steele).
// optiml: n = 50000, x[n]: normal, y[n]
// optiml: block = 128, grid = ceil_div(n, 128)
__global__ void block_scan(const float* x, float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  s[t] = i < n ? x[i] : 0.f;
  __syncthreads();
  for (int step = 1; step < 128; step *= 2) {
    float v = t >= step ? s[t - step] : 0.f;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  if (i < n) y[i] = s[t];
}
