// Layer normalisation with a warp a row, 128-bit accesses and the row kept in shared memory.
__device__ float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}
// optiml: threads = 256, rows = 8192, columns = 768, input[rows * columns]: normal(0, 1), weight[columns]: normal, bias[columns]: normal
// optiml: output[rows * columns], mean[rows], rstd[rows], block = (32, threads / 32), grid = ceil_div(rows, threads / 32)
// optiml: shared = (2 + threads / 32) * columns * 4
__global__ void layernorm_warp_per_row(float* __restrict__ output, float* __restrict__ mean, float* __restrict__ rstd,
                                       const float* __restrict__ input, const float* __restrict__ weight,
                                       const float* __restrict__ bias, int rows, int columns) {
    extern __shared__ float4 memory[];
    int quads = columns / 4;
    float4* s_weight = memory;
    float4* s_bias = memory + quads;
    float4* s_row = memory + (2 + threadIdx.y) * quads;
    for (int q = threadIdx.x + 32 * threadIdx.y; q < quads; q += 32 * blockDim.y) {
        s_weight[q] = ((const float4*)weight)[q];
        s_bias[q] = ((const float4*)bias)[q];
    }
    __syncthreads();
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float4* x = (const float4*)(input + row * columns);
    float4* y = (float4*)(output + row * columns);
    float sum = 0.0f;
    for (int q = threadIdx.x; q < quads; q += 32) {
        float4 v = __ldcs(&x[q]);
        sum += v.x + v.y + v.z + v.w;
        s_row[q] = v;
    }
    float m = warp_sum(sum) / columns;
    float spread = 0.0f;
    for (int q = threadIdx.x; q < quads; q += 32) {
        float4 v = s_row[q];
        spread += (v.x - m) * (v.x - m) + (v.y - m) * (v.y - m) + (v.z - m) * (v.z - m) + (v.w - m) * (v.w - m);
    }
    float s = rsqrtf(warp_sum(spread) / columns + 1e-5f);
    for (int q = threadIdx.x; q < quads; q += 32) {
        float4 v = s_row[q], w = s_weight[q], b = s_bias[q], o;
        o.x = s * (v.x - m) * w.x + b.x;
        o.y = s * (v.y - m) * w.y + b.y;
        o.z = s * (v.z - m) * w.z + b.z;
        o.w = s * (v.w - m) * w.w + b.w;
        __stcs(&y[q], o);
    }
    if (threadIdx.x == 0) {
        mean[row] = m;
        rstd[row] = s;
    }
}
