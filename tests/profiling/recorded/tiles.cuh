// A transposition through shared memory whose tile has no padding.
#pragma once

template <typename T, int Rows>
__global__ void transpose(const T* in, T* out, int side) {
  __shared__ T tile[32][32];
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += Rows)
    tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * side + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += Rows)
    out[(y + k) * side + x] = tile[threadIdx.x][threadIdx.y + k];
}
