// optiml: n = 33554432, input[n]: uniform(0, 1), sums[n / 256], block = 256, grid = n / 256
__global__ void reduce_shuffle(float* sums, const float* input, int n) {
    __shared__ float part[8];
    int t = threadIdx.x;
    float v = input[blockIdx.x * 256 + t];
    for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
    if (t % 32 == 0) part[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < 8 ? part[t] : 0.0f;
        for (int step = 4; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
        if (t == 0) sums[blockIdx.x] = v;
    }
}
