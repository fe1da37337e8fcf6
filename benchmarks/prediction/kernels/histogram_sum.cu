// optiml: parts = 256, counts[parts * 1024]: uniform(0, 100), total[1024], block = 128, grid = 24
__global__ void histogram_sum(const unsigned* counts, int parts, unsigned* total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 3 * 256) return;
    unsigned sum = 0;
    for (int p = 0; p < parts; p++) sum += counts[i + 1024 * p];
    total[i] = sum;
}
