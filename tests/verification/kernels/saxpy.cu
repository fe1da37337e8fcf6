// y = a x + y, one thread per element.
// optiml: n = 1000000, a = 2.5, x[n]: normal, y[n]: normal
// optiml: block = 256, grid = ceil_div(n, 256)
__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
