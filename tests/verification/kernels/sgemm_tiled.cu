// C = A B with shared tiles.
#define TILE 16
// optiml: m = 150, n = 170, k = 130, a[m * k]: normal, b[k * n]: normal, c[m * n]
// optiml: block = (16, 16), grid = (ceil_div(n, 16), ceil_div(m, 16))
__global__ void sgemm_tiled(int m, int n, int k, const float* a, const float* b, float* c) {
  __shared__ float ta[TILE][TILE], tb[TILE][TILE];
  int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
  float sum = 0.f;
  for (int start = 0; start < k; start += TILE) {
    ta[y][x] = row < m && start + x < k ? a[row * k + start + x] : 0.f;
    tb[y][x] = col < n && start + y < k ? b[(start + y) * n + col] : 0.f;
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum += ta[y][i] * tb[i][x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}
