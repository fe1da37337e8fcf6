// optiml: n = 4096, x[n]: normal, t[n], y[n], block = 128, grid = ceil_div(n, 128)
__global__ void blocks_pair(const float* x, float* t, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    t[i] = x[i] * 3.0f;
    y[n - 1 - i] = x[i] * 3.0f + 1.0f;
}
