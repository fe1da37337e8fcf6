// optiml: n = 65536, x[n]: uniform(0, 64), w[n]: uniform(1, 9), sums[64]: zeros, most[64]: zeros, block = 256, grid = n / 256
__global__ void weighted_bins(const int* x, const int* w, int* sums, int* most) {
  __shared__ int own[64];
  __shared__ int largest[64];
  if (threadIdx.x < 64) {
    own[threadIdx.x] = 0;
    largest[threadIdx.x] = 0;
  }
  __syncthreads();
  int i = blockIdx.x * 256 + threadIdx.x;
  int bin = x[i];
  int weight = w[i];
  atomicAdd(&own[bin], weight);
  atomicMax(&largest[bin], weight);
  __syncthreads();
  if (threadIdx.x < 64) {
    atomicAdd(&sums[threadIdx.x], own[threadIdx.x]);
    atomicMax(&most[threadIdx.x], largest[threadIdx.x]);
  }
}
