// Per-block partial dot products of float data, summed in double.
// optiml: n = 60000, x[n]: normal, y[n]: normal, partial[ceil_div(n, 512)]
// optiml: block = 128, grid = ceil_div(n, 512)
__global__ void double_dot(const float* x, const float* y, float* partial, int n) {
  __shared__ double s[128];
  int t = threadIdx.x;
  double sum = 0;
  for (int j = 0; j < 4; j++) {
    int i = blockIdx.x * 512 + j * 128 + t;
    if (i < n) sum += (double)x[i] * y[i];
  }
  s[t] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) s[t] += s[t + half];
    __syncthreads();
  }
  if (t == 0) partial[blockIdx.x] = (float)s[0];
}
