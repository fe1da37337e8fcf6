// optiml: n = 2000, x[n]: uniform(0, 9), y[n], sums[ceil_div(n, 256)], block = 256, grid = ceil_div(n, 256)
__global__ void exclusive_scan(const int* x, int* y, int* sums, int n) {
    __shared__ int s[2][256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t, in = 0;
    s[0][t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int d = 1; d < 256; d <<= 1) {
        s[1 - in][t] = s[in][t] + (t >= d ? s[in][t - d] : 0);
        in = 1 - in;
        __syncthreads();
    }
    if (i < n) y[i] = t ? s[in][t - 1] : 0;
    if (t == 255) sums[blockIdx.x] = s[in][255];
}
