// optiml: rows = 40, cols = 900, x[rows * cols]: normal, y[rows * cols], block = 256, grid = rows
__global__ void row_softmax(const float* x, float* y, int rows, int cols) {
    __shared__ float s[256];
    const float* p = x + blockIdx.x * cols;
    float* q = y + blockIdx.x * cols;
    int t = threadIdx.x;
    float m = -INFINITY;
    for (int c = t; c < cols; c += 256) m = fmaxf(m, p[c]);
    s[t] = m;
    __syncthreads();
    for (int d = 128; d; d >>= 1) { if (t < d) s[t] = fmaxf(s[t], s[t + d]); __syncthreads(); }
    m = s[0];
    __syncthreads();
    float z = 0.0f;
    for (int c = t; c < cols; c += 256) z += expf(p[c] - m);
    s[t] = z;
    __syncthreads();
    for (int d = 128; d; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
    z = s[0];
    for (int c = t; c < cols; c += 256) q[c] = expf(p[c] - m) / z;
}
