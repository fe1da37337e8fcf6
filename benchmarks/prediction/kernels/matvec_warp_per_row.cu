// optiml: rows = 8192, columns = 8192, a[rows * columns]: uniform(0, 1), x[columns]: uniform(0, 1), y[rows], block = 256, grid = rows / 8
__global__ void matvec_warp_per_row(float* y, const float* a, const float* x, int rows, int columns) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row < rows) {
        float sum = 0.0f;
        for (int c = lane; c < columns; c += 32) sum += a[row * columns + c] * x[c];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (lane == 0) y[row] = sum;
    }
}
