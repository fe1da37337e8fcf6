// optiml: width = 2048, height = 2048, input[width * height]: uniform(0, 1), weights[81]: uniform(0, 1), output[width * height]
// optiml: block = (16, 16), grid = (width / 16, height / 16)
__global__ void convolution_tiled(float* output, const float* input, const float* __restrict__ weights, int width, int height) {
    __shared__ float tile[24][25];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    for (int j = threadIdx.y; j < 24; j += 16) {
        for (int i = threadIdx.x; i < 24; i += 16) {
            int px = blockIdx.x * 16 + i - 4, py = blockIdx.y * 16 + j - 4;
            tile[j][i] = px >= 0 && px < width && py >= 0 && py < height ? input[py * width + px] : 0.0f;
        }
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int dy = 0; dy < 9; dy++) {
#pragma unroll
        for (int dx = 0; dx < 9; dx++) sum += tile[threadIdx.y + dy][threadIdx.x + dx] * weights[dy * 9 + dx];
    }
    output[y * width + x] = sum;
}
