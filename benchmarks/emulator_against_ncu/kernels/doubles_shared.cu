// optiml: n = 64, x[n * n]: uniform(0, 1), y[n * n], block = (32, 8), grid = (n / 32, n / 32)
__global__ void doubles_shared(const double* x, double* y, int n) {
  __shared__ double tile[32][32];
  __shared__ float4 wide[256];
  int t = threadIdx.y * 32 + threadIdx.x;
  wide[t] = make_float4(t, t, t, t);
  for (int k = 0; k < 32; k += 8)
    tile[threadIdx.y + k][threadIdx.x] = x[(blockIdx.y * 32 + threadIdx.y + k) * n + blockIdx.x * 32 + threadIdx.x];
  __syncthreads();
  float4 other = wide[(t * 5) % 256];
  for (int k = 0; k < 32; k += 8)
    y[(blockIdx.x * 32 + threadIdx.y + k) * n + blockIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y + k] + other.y;
}
