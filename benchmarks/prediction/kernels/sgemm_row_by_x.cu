// optiml: m = 4096, n = 4096, k = 4096, alpha = 0.5, beta = 3.0, a[m * k]: normal(0, 1), b[k * n]: normal(0, 1), c[m * n]: normal(0, 1)
// optiml: block = (32, 32), grid = (ceil_div(m, 32), ceil_div(n, 32))
__global__ void sgemm_row_by_x(int m, int n, int k, float alpha, const float* a, const float* b, float beta, float* c) {
    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < m && column < n) {
        float sum = 0.0f;
        for (int i = 0; i < k; ++i) {
            sum += a[row * k + i] * b[i * n + column];
        }
        c[row * n + column] = alpha * sum + beta * c[row * n + column];
    }
}
