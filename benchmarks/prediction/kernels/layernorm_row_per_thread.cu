// Layer normalisation the obvious way: one thread walks a row three times.
// optiml: threads = 32, rows = 8192, columns = 768, input[rows * columns]: normal(0, 1), weight[columns]: normal, bias[columns]: normal
// optiml: output[rows * columns], mean[rows], rstd[rows], block = threads, grid = ceil_div(rows, threads)
__global__ void layernorm_row_per_thread(float* output, float* mean, float* rstd, const float* input,
                                         const float* weight, const float* bias, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float epsilon = 1e-5f;
    if (row < rows) {
        const float* x = input + row * columns;
        float m = 0.0f;
        for (int c = 0; c < columns; c++) {
            m += x[c];
        }
        m = m / columns;
        float v = 0.0f;
        for (int c = 0; c < columns; c++) {
            float d = x[c] - m;
            v += d * d;
        }
        v = v / columns;
        float s = 1.0f / sqrtf(v + epsilon);
        float* y = output + row * columns;
        for (int c = 0; c < columns; c++) {
            float n = s * (x[c] - m);
            float o = n * weight[c] + bias[c];
            y[c] = o;
        }
        mean[row] = m;
        rstd[row] = s;
    }
}
