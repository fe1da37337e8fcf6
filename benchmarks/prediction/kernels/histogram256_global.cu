// optiml: n = 8388608, input[n]: uniform(0, 256), counts[256]: zeros, block = 256, grid = ceil_div(n, 256)
__global__ void histogram256_global(int* counts, const int* input, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[input[i]], 1);
}
