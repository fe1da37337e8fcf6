// optiml: n = 100000, x[n]: normal, y[n], block = 256, grid = 16
__global__ void relu_grid_stride(const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] > 0.0f ? x[i] : 0.01f * x[i];
}
