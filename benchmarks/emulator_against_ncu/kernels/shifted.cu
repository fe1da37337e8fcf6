// optiml: n = 65536, x[n + 8]: uniform(0, 1), y[n], block = 256, grid = n / 256
__global__ void shifted(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float one = x[i + 1];
  float back = x[n - 1 - i];
  float pair = x[i / 2 * 2];
  float same = x[blockIdx.x];
  y[i] = one + back + pair + same;
}
