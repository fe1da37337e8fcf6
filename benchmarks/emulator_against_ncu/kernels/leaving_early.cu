// optiml: n = 65536, x[n * 4]: uniform(0, 1), y[n], block = 256, grid = n / 256
__global__ void leaving_early(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i % 3 == 0) return;
  float sum = 0.0f;
  for (int k = 0; k < 4; k++) {
    float value = x[k * n + i];
    if (value < 0.25f) continue;
    if (value > 0.9f) break;
    sum += x[(k * n + i * 7) % (4 * n)];
  }
  y[i] = sum;
}
