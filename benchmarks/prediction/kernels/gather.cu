// optiml: n = 16777216, index[n]: permutation(16777216), x[n]: uniform(0, 1), y[n], block = 256, grid = n / 256
__global__ void gather(float* y, const float* x, const int* index, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[index[i]];
}
