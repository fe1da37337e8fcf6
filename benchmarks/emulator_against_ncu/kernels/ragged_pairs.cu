// optiml: n = 4096, x[n * 8]: uniform(0, 1), many[n]: uniform(0, 5), y[n], block = 128, grid = n / 128
__global__ void ragged_pairs(const float* x, const int* many, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  for (int a = 0; a < many[i]; a++) {
    for (int b = 0; b < many[(i + a) % n]; b++)
      sum += x[(a * 2 + b) * n / 2 + i];
    sum *= 0.5f;
  }
  y[i] = sum;
}
