// optiml: columns = 3072, parts = 11, parts_in[columns * parts]: normal(0, 1), sums[columns]: zeros
// optiml: block = 256, grid = ceil_div(columns, 1024)
__global__ void column_sums_second_pass(float* sums, const float* parts_in, int columns, int parts) {
    int column = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (column < columns) {
        float4 a = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int p = 0; p < parts; p++) {
            float4 v = *(const float4*)(parts_in + column + columns * p);
            a.x += v.x; a.y += v.y; a.z += v.z; a.w += v.w;
        }
        sums[column] += a.x;
        sums[column + 1] += a.y;
        sums[column + 2] += a.z;
        sums[column + 3] += a.w;
    }
}
