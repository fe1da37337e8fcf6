#include <cuda_fp16.h>
// optiml: n = 400, x[n]: normal, y[n], a = 0.3, block = 64, grid = ceil_div(n, 64)
__global__ void half_scale(const __half* x, __half* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2half(a * __half2float(x[i]) + 1.0f);
}
