// optiml: width = 2048, height = 2048, input[width * height]: uniform(0, 1), weights[81]: uniform(0, 1), output[width * height]
// optiml: block = (16, 16), grid = (width / 16, height / 16)
__global__ void convolution_naive(float* output, const float* input, const float* weights, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (int dy = -4; dy <= 4; dy++) {
        for (int dx = -4; dx <= 4; dx++) {
            int px = x + dx, py = y + dy;
            float v = px >= 0 && px < width && py >= 0 && py < height ? input[py * width + px] : 0.0f;
            sum += v * weights[(dy + 4) * 9 + dx + 4];
        }
    }
    output[y * width + x] = sum;
}
