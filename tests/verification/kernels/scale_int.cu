// optiml: n = 900, x[n]: uniform(0, 100), k = 3, sh = 2, y[n], block = 64, grid = ceil_div(n, 64)
__global__ void scale_int(const int* x, long long* y, int k, int sh, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = ((long long)x[i] * k << (sh & 31)) + (x[i] + k) / 5;
}
