// optiml: width = 1024, height = 1024, input[width * height]: uniform(0, 1), output[width * height]
// optiml: block = (32, 16), grid = (width / 32, height / 32)
__global__ void transpose_naive(float* output, float* input, int width, int height) {
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 16) {
        output[x * height + y + i] = input[(y + i) * width + x];
    }
}
