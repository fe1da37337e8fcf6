// A round of integer mixing per element, with a modulus.
// optiml: n = 50000, rounds = 3, buckets = 1009, seed = 17, keys[n]: uniform(0, 2000000000), out[n]
// optiml: block = 128, grid = ceil_div(n, 128)
__global__ void integer_hash(const int* keys, unsigned int* out, int n, int rounds, unsigned int buckets, int seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned int h = (unsigned int)keys[i] ^ (unsigned int)seed;
  for (int r = 0; r < rounds; r++) {
    h ^= h >> 15;
    h *= 2246822519u;
    h = (h << 13) | (h >> 19);
    h += (unsigned int)i;
  }
  out[i] = buckets ? h % buckets : h;
}
