// Neighbouring threads are eight elements apart.
// optiml: threads = 256, n = 67108864, input[n]: uniform(0, 1), output[n], block = threads, grid = ceil_div(n, threads * 8)
__global__ void copy_strided(float* output, const float* input, int n) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    for (int j = 0; j < 8; j++) {
        if (first + j < n) output[first + j] = input[first + j];
    }
}
