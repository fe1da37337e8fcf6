// optiml: threads = 256, n = 67108864, input[n]: uniform(0, 1), output[n], block = threads, grid = ceil_div(n, threads)
__global__ void copy_scalar(float* output, const float* input, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) output[i] = input[i];
}
