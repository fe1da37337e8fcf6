// optiml: rows = 8192, columns = 8192, a[rows * columns]: uniform(0, 1), x[columns]: uniform(0, 1), y[rows], block = 256, grid = ceil_div(rows, 256)
__global__ void matvec_row_per_thread(float* y, const float* a, const float* x, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float sum = 0.0f;
        for (int c = 0; c < columns; c++) sum += a[row * columns + c] * x[c];
        y[row] = sum;
    }
}
