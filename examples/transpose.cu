// Matrix transpose as most people first write it: reads are coalesced, writes are not.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

// optiml: rows = 2048, cols = 2048, in[rows * cols]: normal, out[rows * cols]
// optiml: block = (32, 8), grid = (ceil_div(cols, 32), ceil_div(rows, 8))
__global__ void transpose(const float* in, float* out, int rows, int cols) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < cols && y < rows) {
    out[x * rows + y] = in[y * cols + x];
  }
}

int main() {
  const int rows = 2048, cols = 2048;
  const size_t bytes = size_t(rows) * cols * sizeof(float);
  float *in, *out;
  cudaMalloc(&in, bytes);
  cudaMalloc(&out, bytes);
  float* host = (float*)malloc(bytes);
  for (int i = 0; i < rows * cols; i++) host[i] = float(i % 1000);
  cudaMemcpy(in, host, bytes, cudaMemcpyHostToDevice);
  dim3 block(32, 8);
  dim3 grid((cols + 31) / 32, (rows + 7) / 8);
  transpose<<<grid, block>>>(in, out, rows, cols);
  cudaMemcpy(host, out, bytes, cudaMemcpyDeviceToHost);
  printf("%g\n", host[1]);
  free(host);
  cudaFree(in);
  cudaFree(out);
  return 0;
}
