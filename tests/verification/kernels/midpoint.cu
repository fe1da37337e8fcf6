// optiml: n = 300, lo[n]: uniform(-1000, 1000), hi[n]: uniform(-1000, 1000), y[n], block = 64, grid = ceil_div(n, 64)
__global__ void midpoint(const int* lo, const int* hi, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (int)(((long long)lo[i] + hi[i]) / 2);
}
