// optiml: n = 65536, d = 2048, total[1]: constant(65536), scores[n]: uniform(-0.01, 0.01), value[n * d]: uniform(-0.01, 0.01)
// optiml: output[d], block = 256, grid = d
__global__ void attention_values_block_per_column(const float* __restrict__ total, const float* __restrict__ scores,
                                                  const float* __restrict__ value, float* __restrict__ output,
                                                  const int n, const int d) {
    __shared__ float partial[8];
    int j = blockIdx.x;
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float weight = __expf(scores[i]) / total[0];
        sum += weight * value[i * d + j];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0;
        for (int w = 0; w < 8; w++) sum += partial[w];
        output[j] = sum;
    }
}
