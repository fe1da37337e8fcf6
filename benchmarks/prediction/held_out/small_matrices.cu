// One 4 x 4 product a thread, each matrix contiguous.
// optiml: n = 524288, a[n * 16]: uniform(0, 1), b[n * 16]: uniform(0, 1), c[n * 16], block = 128, grid = n / 128
__global__ void small_matrices(float* c, const float* a, const float* b, int n) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            float s = 0.0f;
            for (int k = 0; k < 4; k++) s += a[m * 16 + i * 4 + k] * b[m * 16 + k * 4 + j];
            c[m * 16 + i * 4 + j] = s;
        }
}
