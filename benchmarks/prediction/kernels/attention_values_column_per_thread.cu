// optiml: n = 65536, d = 2048, weights[n]: uniform(0, 1), value[n * d]: uniform(-0.01, 0.01), output[d], block = 256, grid = ceil_div(d, 256)
__global__ void attention_values_column_per_thread(const float* __restrict__ weights, const float* __restrict__ value,
                                                   float* __restrict__ output, const int n, const int d) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < d) {
        float sum = 0;
        for (int i = 0; i < n; i++) sum += weights[i] * value[i * d + j];
        output[j] = sum;
    }
}
