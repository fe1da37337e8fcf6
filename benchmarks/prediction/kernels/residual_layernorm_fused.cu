// Sum and layer normalisation in one launch: a warp a row, 128-bit accesses, the row kept in shared memory.
__device__ float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}
// optiml: threads = 256, rows = 8192, columns = 768, a[rows * columns]: normal(0, 1), b[rows * columns]: normal(0, 1)
// optiml: weight[columns]: normal, bias[columns]: normal, total[rows * columns], output[rows * columns], mean[rows], rstd[rows]
// optiml: block = (32, threads / 32), grid = ceil_div(rows, threads / 32), shared = (2 + threads / 32) * columns * 4
__global__ void residual_layernorm_fused(float* total, float* output, float* mean, float* rstd, const float* a,
                                         const float* b, const float* weight, const float* bias, int rows,
                                         int columns) {
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
    float sum = 0.0f;
    for (int q = threadIdx.x; q < quads; q += 32) {
        float4 u = __ldcs(&((const float4*)(a + row * columns))[q]);
        float4 v = __ldcs(&((const float4*)(b + row * columns))[q]);
        u.x += v.x; u.y += v.y; u.z += v.z; u.w += v.w;
        sum += u.x + u.y + u.z + u.w;
        __stcs(&((float4*)(total + row * columns))[q], u);
        s_row[q] = u;
    }
    float m = warp_sum(sum) / columns;
    float spread = 0.0f;
    for (int q = threadIdx.x; q < quads; q += 32) {
        float4 v = s_row[q];
        spread += (v.x - m) * (v.x - m) + (v.y - m) * (v.y - m) + (v.z - m) * (v.z - m) + (v.w - m) * (v.w - m);
    }
    float s = rsqrtf(warp_sum(spread) / columns + 1e-5f);
    for (int q = threadIdx.x; q < quads; q += 32) {
        float4 v = s_row[q], w = s_weight[q], c = s_bias[q], o;
        o.x = s * (v.x - m) * w.x + c.x;
        o.y = s * (v.y - m) * w.y + c.y;
        o.z = s * (v.z - m) * w.z + c.z;
        o.w = s * (v.w - m) * w.w + c.w;
        __stcs(&((float4*)(output + row * columns))[q], o);
    }
    if (threadIdx.x == 0) {
        mean[row] = m;
        rstd[row] = s;
    }
}
