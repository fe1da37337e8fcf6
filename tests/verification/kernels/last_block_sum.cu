// Sum of all values: the block that finishes last adds the partial sums and clears the counter.
// optiml: n = 40000, x[n]: normal, partial[64], total[1], counter[1]: zeros
// optiml: block = 128, grid = min(ceil_div(n, 128), 64)
__global__ void last_block_sum(const float* x, float* partial, float* total, unsigned int* counter, int n) {
  __shared__ float s[128];
  __shared__ bool last;
  int t = threadIdx.x;
  float v = 0.f;
  for (int i = blockIdx.x * 128 + t; i < n; i += 128 * gridDim.x) v += x[i];
  s[t] = v;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  if (t == 0) {
    partial[blockIdx.x] = s[0];
    __threadfence();
    last = atomicAdd(counter, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    float sum = 0.f;
    for (unsigned int b = 0; b < gridDim.x; b++) sum += partial[b];
    *total = sum;
    *counter = 0;
  }
}
