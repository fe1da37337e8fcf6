// optiml: n = 500, m = 300, idx[n]: index(m), x[m]: normal, y[n], block = 64, grid = ceil_div(n, 64)
__global__ void gather_checked(const int* idx, const float* x, float* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { int j = idx[i]; y[i] = j >= 0 && j < m ? x[j] : -1.0f; }
}
