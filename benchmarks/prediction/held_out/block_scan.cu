// optiml: n = 16777216, in[n]: uniform(0, 1), out[n], block = 1024, grid = n / 1024
__global__ void block_scan(float* out, const float* in, int n) {
    __shared__ float t[2][1024];
    int i = threadIdx.x, now = 0;
    t[0][i] = in[blockIdx.x * 1024 + i];
    __syncthreads();
    for (int s = 1; s < 1024; s *= 2) {
        t[1 - now][i] = i >= s ? t[now][i] + t[now][i - s] : t[now][i];
        now = 1 - now;
        __syncthreads();
    }
    out[blockIdx.x * 1024 + i] = t[now][i];
}
