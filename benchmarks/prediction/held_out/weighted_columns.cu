// optiml: rows = 4096, columns = 4096, a[rows * columns]: uniform(0, 1), x[rows]: uniform(0, 1), y[columns], block = 128, grid = columns / 128
__global__ void weighted_columns(float* y, const float* a, const float* x, int rows, int columns) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f;
    for (int r = 0; r < rows; r++) s += x[r] * a[r * columns + c];
    y[c] = s;
}
