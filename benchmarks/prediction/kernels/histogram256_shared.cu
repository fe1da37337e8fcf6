// optiml: n = 8388608, input[n]: uniform(0, 256), counts[256]: zeros, block = 256, grid = 528
__global__ void histogram256_shared(int* counts, const int* input, int n) {
    __shared__ int own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&own[input[i]], 1);
    }
    __syncthreads();
    if (own[threadIdx.x]) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}
