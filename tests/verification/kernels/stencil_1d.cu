// Five coefficients along a line, halo in shared memory, zero outside.
// optiml: n = 100000, in[n]: normal, weights[5]: normal, out[n]
// optiml: block = 128, grid = ceil_div(n, 128)
__global__ void stencil_1d(const float* in, const float* weights, float* out, int n) {
  __shared__ float s[132];
  int t = threadIdx.x, i = blockIdx.x * 128 + t;
  s[t + 2] = i < n ? in[i] : 0.f;
  if (t < 2) s[t] = i >= 2 && i - 2 < n ? in[i - 2] : 0.f;
  if (t >= 126) s[t + 4] = i + 2 < n ? in[i + 2] : 0.f;
  __syncthreads();
  if (i < n) {
    float v = 0.f;
    for (int j = 0; j < 5; j++) v += weights[j] * s[t + j];
    out[i] = v;
  }
}
