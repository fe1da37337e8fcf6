// optiml: n = 3000, x[n]: uniform(-2147483648, 2147483647), y[n], block = 128, grid = ceil_div(n, 128)
__global__ void bits(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i], c = 0;
    for (unsigned u = (unsigned)v; u; u >>= 1) c += u & 1u;
    int lead = v == 0 ? 32 : __clz(v);
    y[i] = c * 1000 + lead + (v % 8) + (v < 0 ? -v : v) % 7;
}
