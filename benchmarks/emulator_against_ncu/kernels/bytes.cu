// optiml: n = 65536, a[n]: uniform(0, 200), b[n]: uniform(0, 200), c[n]: uniform(0, 200), out[n], block = 256, grid = n / 1024
__global__ void bytes(const unsigned char* a, const uchar4* b, const short* c, unsigned char* out) {
  int i = blockIdx.x * 256 + threadIdx.x;
  for (int k = 0; k < 4; k++) {
    int at = i * 4 + k;
    int value = a[at];
    uchar4 four = b[at];
    value += four.x + four.w;
    value += c[at];
    out[at] = (unsigned char)value;
  }
}
