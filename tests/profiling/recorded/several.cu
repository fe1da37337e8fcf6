// Kernels that waste what a GPU has, each in its own way; the reports beside this file are of their launches.
#include "tiles.cuh"

// Neighbouring lanes read elements that lie a row apart.
__global__ void row_sums(const float* x, float* sums, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float total = 0.0f;
  for (int column = 0; column < columns; column++)
    total += x[row * columns + column];
  sums[row] = total;
}

namespace counting {
// Odd lanes work longer than even ones, and all of them meet at few addresses.
__global__ void bins(const float* x, int* counts, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = x[i];
  if (i % 2)
    for (int turn = 0; turn < 40; turn++)
      value = value * 0.99f + 0.001f;
  atomicAdd(&counts[static_cast<int>(value * 7.0f) & 7], 1);
}
}  // namespace counting

#ifdef WITH_MAIN
int main() {
  const int side = 1024;
  float *x, *y;
  int* counts;
  cudaMalloc(&x, side * side * sizeof(float));
  cudaMalloc(&y, side * side * sizeof(float));
  cudaMalloc(&counts, 8 * sizeof(int));
  cudaMemset(x, 0, side * side * sizeof(float));
  cudaMemset(counts, 0, 8 * sizeof(int));
  row_sums<<<side / 128, 128>>>(x, y, side, side);
  transpose<float, 8><<<dim3(side / 32, side / 32), dim3(32, 8)>>>(x, y, side);
  transpose<int, 4><<<dim3(side / 32, side / 32), dim3(32, 4)>>>((const int*)x, (int*)y, side);
  counting::bins<<<side * side / 256, 256>>>(x, counts, side * side);
  return cudaDeviceSynchronize() != cudaSuccess;
}
#endif
