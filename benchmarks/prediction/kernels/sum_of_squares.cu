__device__ float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}
// optiml: threads = 512, count = 70778880, data[count]: normal(0, 1), total[1]: zeros, block = threads, grid = 2048 * 132 / threads
__global__ void sum_of_squares(float* total, const float* data, size_t count) {
    size_t width = (size_t)blockDim.x * gridDim.x;
    float sum = 0.0f;
    for (size_t i = threadIdx.x + (size_t)blockDim.x * blockIdx.x; i < count; i += width) {
        sum += data[i] * data[i];
    }
    __shared__ float partial[32];
    float w = warp_sum(sum);
    partial[threadIdx.x / 32] = w;
    __syncthreads();
    if (threadIdx.x < 32) {
        float v = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
        v = warp_sum(v);
        if (threadIdx.x == 0) atomicAdd(total, v);
    }
}
