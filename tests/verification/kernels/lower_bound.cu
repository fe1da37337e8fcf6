// optiml: n = 700, m = 400, keys[n]: sorted, q[m]: normal, out[m], block = 64, grid = ceil_div(m, 64)
__global__ void lower_bound(const float* keys, const float* q, int* out, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m) return;
    float v = q[i];
    int lo = 0, hi = n;
    while (lo < hi) { int mid = lo + (hi - lo) / 2; if (keys[mid] < v) lo = mid + 1; else hi = mid; }
    out[i] = lo;
}
