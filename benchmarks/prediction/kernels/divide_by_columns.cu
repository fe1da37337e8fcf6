// Integer division and remainder by a run-time value, as flattened indexing does.
// optiml: rows = 4096, columns = 4099, input[rows * columns]: uniform(0, 1), scale[columns]: uniform(0, 1), output[rows * columns]
// optiml: block = 256, grid = ceil_div(rows * columns, 256)
__global__ void divide_by_columns(float* output, const float* input, const float* scale, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns) {
        int row = i / columns, column = i % columns;
        output[row * columns + column] = input[row * columns + column] * scale[column];
    }
}
