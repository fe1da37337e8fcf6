// First pass: 128-bit loads, a 4 x 8 warp over 32 columns, rows split over the grid; a second pass adds the parts.
// optiml: threads = 256, rows = 8192, columns = 3072, parts = max(1, 2048 * 132 / (threads * (columns / 32)))
// optiml: x[rows * columns]: normal(0, 1), sums[columns * parts]
// optiml: block = (4, 8, threads / 32), grid = (columns / 32, parts)
__global__ void column_sums_split_rows(float* sums, const float* x, int rows, int columns) {
    int column = blockIdx.x * 32 + threadIdx.y * 4;
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    int rows_per_block = 4 * blockDim.z;
    for (int r = blockIdx.y * rows_per_block + threadIdx.x + 4 * threadIdx.z; r < rows; r += gridDim.y * rows_per_block) {
        float4 v = *(const float4*)(x + column + r * columns);
        total.x += v.x; total.y += v.y; total.z += v.z; total.w += v.w;
    }
    __shared__ float partial[4][32][8];
    float each[4] = {total.x, total.y, total.z, total.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        float v = each[k];
        v += __shfl_down_sync(0xffffffffu, v, 1, 4);
        v += __shfl_down_sync(0xffffffffu, v, 2, 4);
        if (threadIdx.x == 0) partial[k][threadIdx.z][threadIdx.y] = v;
    }
    __syncthreads();
    for (int k = threadIdx.z; k < 4; k += blockDim.z) {
        float a = 0.0f;
        for (int r = threadIdx.x; r < (int)blockDim.z; r += 4) {
            float v = partial[k][r][threadIdx.y];
            v += __shfl_down_sync(0xffffffffu, v, 1, 4);
            v += __shfl_down_sync(0xffffffffu, v, 2, 4);
            a += v;
        }
        if (threadIdx.x == 0) sums[column + k + blockIdx.y * columns] = a;
    }
}
