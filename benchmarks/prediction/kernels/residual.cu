// Element-wise sum, the first of two launches.
// optiml: threads = 256, n = 6291456, a[n]: normal(0, 1), b[n]: normal(0, 1), output[n], block = threads, grid = ceil_div(n, threads)
__global__ void residual(float* output, const float* a, const float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        output[i] = a[i] + b[i];
    }
}
