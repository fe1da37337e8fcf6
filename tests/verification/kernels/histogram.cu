// Counts by global atomics.
// optiml: n = 200000, data[n]: uniform(0, 256), bins[256]: zeros
// optiml: block = 256, grid = min(ceil_div(n, 256), 64)
__global__ void histogram(const unsigned char* data, unsigned int* bins, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&bins[data[i]], 1u);
}
