// optiml: n = 4096, in[n * n]: uniform(0, 1), out[n * n], block = (32, 8), grid = (n / 32, n / 8)
__global__ void jacobi_plain(float* out, const float* in, int n) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    int l = max(x - 1, 0), r = min(x + 1, n - 1), u = max(y - 1, 0), d = min(y + 1, n - 1);
    out[y * n + x] = 0.25f * (in[y * n + l] + in[y * n + r] + in[u * n + x] + in[d * n + x]);
}
