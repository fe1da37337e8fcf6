// optiml: side = 2048, in[side * side]: uniform(0, 1), out[side * side], block = (32, 8), grid = (side / 32, side / 32)
// optiml: require side % 32 == 0
__global__ void transpose(const float* in, float* out, int side) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * side + x];
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    out[(y + k) * side + x] = tile[threadIdx.x][threadIdx.y + k];
}
