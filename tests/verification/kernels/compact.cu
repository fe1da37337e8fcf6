// optiml: n = 1500, x[n]: normal, y[n], count[1]: zeros, block = 256, grid = 1
__global__ void compact(const float* x, float* y, int* count, int n) {
    __shared__ int s[256];
    __shared__ int base;
    if (!threadIdx.x) base = 0;
    __syncthreads();
    for (int q = 0; q < n; q += 256) {
        int i = q + threadIdx.x, keep = i < n && x[i] > 0.25f;
        s[threadIdx.x] = keep;
        __syncthreads();
        for (int d = 1; d < 256; d <<= 1) { int v = threadIdx.x >= d ? s[threadIdx.x - d] : 0; __syncthreads(); s[threadIdx.x] += v; __syncthreads(); }
        if (keep) y[base + s[threadIdx.x] - 1] = x[i];
        __syncthreads();
        if (threadIdx.x == 255) base += s[255];
        __syncthreads();
    }
    if (!threadIdx.x) *count = base;
}
