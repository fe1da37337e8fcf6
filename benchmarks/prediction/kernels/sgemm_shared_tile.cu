// optiml: m = 4096, n = 4096, k = 4096, a[m * k]: normal(0, 1), b[k * n]: normal(0, 1), c[m * n]
// optiml: block = (32, 32), grid = (n / 32, m / 32)
__global__ void sgemm_shared_tile(int m, int n, int k, const float* a, const float* b, float* c) {
    __shared__ float ta[32][32], tb[32][32];
    int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i < k; i += 32) {
        ta[threadIdx.y][threadIdx.x] = a[row * k + i + threadIdx.x];
        tb[threadIdx.y][threadIdx.x] = b[(i + threadIdx.y) * n + column];
        __syncthreads();
        for (int j = 0; j < 32; j++) sum += ta[threadIdx.y][j] * tb[j][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
