// optiml: n = 4194304, input[n]: uniform(0, 100), total[1]: zeros, block = 256, grid = n / 256
__global__ void atomic_sum(int* total, const int* input, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, input[i]);
}
