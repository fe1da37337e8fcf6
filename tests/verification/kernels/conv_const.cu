// optiml: n = 2000, r = 3, x[n]: normal, w[2 * r + 1]: normal, y[n], block = 128, grid = ceil_div(n, 128)
__global__ void conv_const(const float* x, const float* w, float* y, int n, int r) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.0f;
    for (int d = -r; d <= r; ++d) { int j = i + d; if (j >= 0 && j < n) s += w[d + r] * x[j]; }
    y[i] = s;
}
