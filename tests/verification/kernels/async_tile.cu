#include <cuda_pipeline.h>
// optiml: n = 4096, x[n]: normal, y[n], block = 128, grid = ceil_div(n, 512), require n % 128 == 0
__global__ void async_tile(const float* x, float* y, int n) {
    __shared__ float s[2][128];
    int t = threadIdx.x, base = blockIdx.x * 512, steps = min(4, (n - base) / 128);
    __pipeline_memcpy_async(&s[0][t], x + base + t, 4);
    __pipeline_commit();
    for (int j = 0; j < steps; ++j) {
        if (j + 1 < steps) __pipeline_memcpy_async(&s[(j + 1) & 1][t], x + base + (j + 1) * 128 + t, 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        y[base + j * 128 + t] = s[j & 1][127 - t] * 2.0f;
        __syncthreads();
    }
}
