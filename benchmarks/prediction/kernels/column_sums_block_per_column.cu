// optiml: threads = 256, rows = 8192, columns = 3072, x[rows * columns]: normal(0, 1), sums[columns]: zeros
// optiml: block = threads, grid = columns, shared = threads * 4
__global__ void column_sums_block_per_column(float* sums, const float* x, int rows, int columns) {
    extern __shared__ float partial[];
    int column = blockIdx.x, thread = threadIdx.x, threads = blockDim.x;
    float sum = 0.0f;
    for (int r = thread; r < rows; r += threads) {
        sum += x[column + r * columns];
    }
    partial[thread] = sum;
    __syncthreads();
    for (int stride = threads / 2; stride >= 1; stride /= 2) {
        __syncthreads();
        if (thread < stride) {
            partial[thread] += partial[thread + stride];
        }
    }
    if (thread == 0) {
        sums[column] = sums[column] + partial[0];
    }
}
