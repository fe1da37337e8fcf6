// optiml: n = 65536, d = 2048, key[n * d]: uniform(-0.01, 0.01), query[d]: uniform(-0.01, 0.01), scores[n], total[1]: zeros
// optiml: block = 256, grid = ceil_div(n, 256)
__global__ void attention_scores_key_per_thread(const float* __restrict__ key, const float* __restrict__ query,
                                                float* __restrict__ scores, float* __restrict__ total, const int n,
                                                const int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = 0;
        for (int j = 0; j < d; j++) sum += key[i * d + j] * query[j];
        scores[i] = sum;
        atomicAdd(total, __expf(sum));
    }
}
