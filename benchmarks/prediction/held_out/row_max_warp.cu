// optiml: rows = 16384, columns = 1024, x[rows * columns]: uniform(0, 1), y[rows], block = 128, grid = rows / 4
__global__ void row_max_warp(float* y, const float* x, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float m = -1e30f;
    for (int c = lane; c < columns; c += 32) m = fmaxf(m, x[row * columns + c]);
    for (int s = 16; s > 0; s /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, s));
    if (lane == 0) y[row] = m;
}
