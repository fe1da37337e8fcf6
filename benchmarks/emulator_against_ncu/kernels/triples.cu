// optiml: n = 65536, x[n]: uniform(0, 1), y[n], block = 256, grid = n / 256
__global__ void triples(const float3* x, float3* y) {
  int i = blockIdx.x * 256 + threadIdx.x;
  float3 value = x[i];
  y[i] = make_float3(value.z, value.x, value.y);
}
