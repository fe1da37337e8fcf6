// optiml: threads = 256, n = 67108864, a = 2.0, x[n]: uniform(0, 1), y[n]: uniform(0, 1), block = threads, grid = 1056
__global__ void axpy_coarsened(float* y, const float* x, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        y[i] = a * x[i] + y[i];
    }
}
