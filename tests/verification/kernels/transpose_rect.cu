// optiml: rows = 300, cols = 200, x[rows * cols]: normal, y[rows * cols], block = (32, 8), grid = (ceil_div(cols, 32), ceil_div(rows, 8))
__global__ void transpose_rect(const float* x, float* y, int rows, int cols) {
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    if (r < rows && c < cols) y[c * rows + r] = x[r * cols + c];
}
