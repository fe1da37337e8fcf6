// C = alpha A B + beta C, one thread per element, rows by threadIdx.x.
// optiml: m = 200, n = 150, k = 170, alpha = 1.5, beta = 0.5, a[m * k]: normal, b[k * n]: normal, c[m * n]: normal
// optiml: block = (16, 16), grid = (ceil_div(m, 16), ceil_div(n, 16))
__global__ void sgemm(int m, int n, int k, float alpha, const float* a, const float* b, float beta, float* c) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  int col = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < m && col < n) {
    float sum = 0.f;
    for (int i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = alpha * sum + beta * c[row * n + col];
  }
}
