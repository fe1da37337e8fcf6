// optiml: n = 65536, total[1]: constant(65536), scores[n]: uniform(-0.01, 0.01), weights[n], block = 256, grid = ceil_div(n, 256)
__global__ void attention_normalise(const float* __restrict__ total, const float* __restrict__ scores,
                                    float* __restrict__ weights, const int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) weights[i] = __expf(scores[i]) / total[0];
}
