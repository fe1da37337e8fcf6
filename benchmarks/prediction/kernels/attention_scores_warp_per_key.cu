// optiml: n = 65536, d = 2048, key[n * d]: uniform(-0.01, 0.01), query[d]: uniform(-0.01, 0.01), scores[n], total[1]: zeros
// optiml: block = 256, grid = ceil_div(n, 8)
__global__ void attention_scores_warp_per_key(const float* __restrict__ key, const float* __restrict__ query,
                                              float* __restrict__ scores, float* __restrict__ total, const int n,
                                              const int d) {
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i < n) {
        float sum = 0;
        for (int j = threadIdx.x % 32; j < d; j += 32) sum += key[i * d + j] * query[j];
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) {
            scores[i] = sum;
            atomicAdd(total, __expf(sum));
        }
    }
}
