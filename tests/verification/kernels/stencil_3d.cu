// Seven-point stencil; the boundary is not written.
// optiml: nx = 60, ny = 50, nz = 40, c0 = -6, c1 = 1.25, a[nx * ny * nz]: normal, b[nx * ny * nz]
// optiml: block = (32, 4), grid = (ceil_div(nx, 32), ceil_div(ny, 4), nz)
__global__ void stencil_3d(const float* a, float* b, int nx, int ny, int nz, float c0, float c1) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  int z = blockIdx.z;
  if (x < 1 || x >= nx - 1 || y < 1 || y >= ny - 1 || z < 1 || z >= nz - 1) return;
  int i = (z * ny + y) * nx + x;
  b[i] = c0 * a[i] + c1 * (a[i - 1] + a[i + 1] + a[i - nx] + a[i + nx] + a[i - nx * ny] + a[i + nx * ny]);
}
