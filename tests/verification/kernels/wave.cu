// optiml: n = 1000, steps = 7, u[n]: normal, v[n]: normal, block = 256, grid = 1
__global__ void wave(float* u, float* v, int n, int steps) {
    for (int s = 0; s < steps; ++s) {
        float* a = s % 2 ? v : u;
        float* b = s % 2 ? u : v;
        for (int i = threadIdx.x; i < n; i += blockDim.x) b[i] = 0.25f * ((i ? a[i - 1] : 0.0f) + 2.0f * a[i] + (i + 1 < n ? a[i + 1] : 0.0f));
        __syncthreads();
    }
}
