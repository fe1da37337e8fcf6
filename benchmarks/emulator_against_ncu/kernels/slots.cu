// optiml: n = 65536, x[n]: uniform(0, 1000), out[n]: zeros, counts[n / 256], block = 256, grid = n / 256
__global__ void slots(const int* x, int* out, int* counts) {
  __shared__ int used;
  __shared__ int list[256];
  if (threadIdx.x == 0) used = 0;
  __syncthreads();
  int value = x[blockIdx.x * 256 + threadIdx.x];
  if (value < 400) {
    int at = atomicAdd(&used, 1);
    list[at] = value;
  }
  __syncthreads();
  if (threadIdx.x < used) out[blockIdx.x * 256 + threadIdx.x] = list[threadIdx.x] * 0 + 1;
  if (threadIdx.x == 0) counts[blockIdx.x] = used;
}
