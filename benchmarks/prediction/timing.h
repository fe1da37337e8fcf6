// timing.h - fills buffers and times launches; measure.py puts it before the kernels.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>
__global__ void fill_float(float* p, size_t n, float low, float high) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    unsigned h = (unsigned)i * 2654435761u; h ^= h >> 15; h *= 2246822519u; h ^= h >> 13;
    p[i] = low + (high - low) * (h >> 8) / 16777216.0f;
  }
}
__global__ void fill_int(int* p, size_t n, long long range, int kind) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    unsigned h = (unsigned)i * 2654435761u; h ^= h >> 15; h *= 2246822519u; h ^= h >> 13;
    p[i] = kind ? (int)((i * 2654435761ull) % (unsigned long long)range) : (int)(h % (unsigned long long)range);
  }
}
static void* flush_buffer; static size_t flush_bytes;
template <class F> void report(const char* name, const char* names, F launch) {
  cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
  launch(); cudaDeviceSynchronize();
  cudaError_t e = cudaGetLastError();
  if (e != cudaSuccess) { printf("{\"kernel\": \"%s\", \"names\": %s, \"error\": \"%s\"}\n", name, names, cudaGetErrorString(e)); return; }
  float once; cudaEventRecord(a); launch(); cudaEventRecord(b); cudaEventSynchronize(b); cudaEventElapsedTime(&once, a, b);
  int loop = (int)std::max(3.0f, std::min(500.0f, 40.0f / once));
  std::vector<float> warm, cold;
  for (int r = 0; r < 5; r++) {
    cudaEventRecord(a); for (int i = 0; i < loop; i++) launch(); cudaEventRecord(b); cudaEventSynchronize(b);
    float t; cudaEventElapsedTime(&t, a, b); warm.push_back(t / loop);
  }
  for (int r = 0; r < (once > 20 ? 3 : 15); r++) {
    cudaMemsetAsync(flush_buffer, r, flush_bytes);
    cudaEventRecord(a); launch(); cudaEventRecord(b); cudaEventSynchronize(b);
    float t; cudaEventElapsedTime(&t, a, b); cold.push_back(t);
  }
  std::sort(warm.begin(), warm.end()); std::sort(cold.begin(), cold.end());
  printf("{\"kernel\": \"%s\", \"names\": %s, \"warm\": %.6e, \"cold\": %.6e}\n", name, names, warm[2] * 1e-3, cold[cold.size() / 2] * 1e-3);
  fflush(stdout);
}
