// Row softmax the obvious way: one thread walks a row three times.
// optiml: threads = 32, rows = 8192, columns = 50257, input[rows * columns]: normal(0, 1), output[rows * columns]
// optiml: block = threads, grid = ceil_div(rows, threads)
__global__ void softmax_row_per_thread(float* output, const float* input, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        const float* x = input + row * columns;
        float* y = output + row * columns;
        float largest = -INFINITY;
        for (int c = 0; c < columns; c++) {
            if (x[c] > largest) {
                largest = x[c];
            }
        }
        double sum = 0.0;
        for (int c = 0; c < columns; c++) {
            y[c] = expf(x[c] - largest);
            sum += y[c];
        }
        for (int c = 0; c < columns; c++) {
            y[c] /= (float)sum;
        }
    }
}
