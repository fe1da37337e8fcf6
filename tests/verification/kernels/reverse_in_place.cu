// Reverses a buffer in place.
// optiml: n = 30001, data[n]: normal
// optiml: block = 128, grid = ceil_div(n, 256)
__global__ void reverse_in_place(double* data, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = n - 1 - i;
  if (i < j) {
    double low = data[i], high = data[j];
    data[i] = high;
    data[j] = low;
  }
}
