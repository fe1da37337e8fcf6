// optiml: n = 3000, x[n]: normal(0, 50), scale = 0.7, zero = 3, y[n], block = 128, grid = ceil_div(n, 128)
__global__ void quantize(const float* x, signed char* y, float scale, int zero, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = rintf(x[i] / scale) + (float)zero;
    v = fminf(fmaxf(v, -128.0f), 127.0f);
    y[i] = (signed char)v;
}
