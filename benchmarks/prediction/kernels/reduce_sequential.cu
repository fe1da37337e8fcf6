// optiml: n = 33554432, input[n]: uniform(0, 1), sums[n / 256], block = 256, grid = n / 256
__global__ void reduce_sequential(float* sums, const float* input, int n) {
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = input[blockIdx.x * 256 + t];
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (t < step) part[t] += part[t + step];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}
