// Gathers by one table and scatters by another, scaled.
// optiml: n = 60000, m = 20000, scale = 0.75, in[m]: normal, from[n]: index(m), to[n]: permutation(n), out[n]
// optiml: block = 256, grid = ceil_div(n, 256)
__global__ void gather_scatter(const float* in, const int* from, const int* to, float* out, int n, int m, float scale) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int source = from[i];
  if (source >= 0 && source < m) out[to[i]] = scale * in[source];
}
