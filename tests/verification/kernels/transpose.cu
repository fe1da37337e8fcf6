// Matrix transpose as most people first write it.
// optiml: rows = 1000, cols = 1200, in[rows * cols]: normal, out[rows * cols]
// optiml: block = (32, 8), grid = (ceil_div(cols, 32), ceil_div(rows, 8))
__global__ void transpose(const float* in, float* out, int rows, int cols) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < cols && y < rows) {
    out[x * rows + y] = in[y * cols + x];
  }
}
