// optiml: n = 2048, a[n * n]: normal(0, 1), b[n * n]: normal(0, 1), c[n * n], block = (16, 16), grid = (n / 64, n / 64)
__global__ void sgemm_4x4(float* c, const float* a, const float* b, int n) {
    __shared__ float ta[16][65], tb[16][64];
    float r[4][4] = {};
    int t = threadIdx.y * 16 + threadIdx.x;
    for (int k = 0; k < n; k += 16) {
        for (int i = 0; i < 4; i++) {
            ta[t % 16][t / 16 + 16 * i] = a[(blockIdx.y * 64 + t / 16 + 16 * i) * n + k + t % 16];
            tb[t / 64 + 4 * i][t % 64] = b[(k + t / 64 + 4 * i) * n + blockIdx.x * 64 + t % 64];
        }
        __syncthreads();
        for (int d = 0; d < 16; d++) {
            float u[4], v[4];
            for (int i = 0; i < 4; i++) u[i] = ta[d][threadIdx.y * 4 + i];
            for (int j = 0; j < 4; j++) v[j] = tb[d][threadIdx.x + 16 * j];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) r[i][j] += u[i] * v[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) c[(blockIdx.y * 64 + threadIdx.y * 4 + i) * n + blockIdx.x * 64 + threadIdx.x + 16 * j] = r[i][j];
}
