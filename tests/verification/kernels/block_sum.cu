// One partial sum per block, by halves in shared memory.
// optiml: n = 300000, x[n]: normal, partial[ceil_div(n, 256)]
// optiml: block = 256, grid = ceil_div(n, 256)
__global__ void block_sum(const float* x, float* partial, int n) {
  __shared__ float s[256];
  int t = threadIdx.x;
  int i = blockIdx.x * 256 + t;
  s[t] = i < n ? x[i] : 0.f;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = s[0];
}
