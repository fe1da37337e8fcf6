// optiml: side = 2048, in[side * side]: uniform(0, 1), out[side * side], block = (32, 8), grid = (side / 32, side / 32)
// optiml: require side % 32 == 0
__global__ void transpose(const float* in, float* out, int side) {
  int x = blockIndex.x * 32 + threadIdx.x;
  int y = blockIdx.y * 32 + threadIdx.y;
  for (int k = 0; k < 32; k += 8)
    out[x * side + y + k] = in[(y + k) * side + x];
}
