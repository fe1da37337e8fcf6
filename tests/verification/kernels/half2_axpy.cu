// y = a x + y in half precision, two elements at a time; n counts pairs.
#include <cuda_fp16.h>
// optiml: n = 30000, a = 1.5, x[n]: normal, y[n]: normal
// optiml: block = 128, grid = ceil_div(n, 128)
__global__ void half2_axpy(const __half2* x, __half2* y, int n, float a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __hfma2(__float2half2_rn(a), x[i], y[i]);
}
