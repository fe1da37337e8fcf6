// optiml: width = 8192, height = 8192, input[width * height]: uniform(0, 1), output[width * height]
// optiml: block = (16, 16), grid = (width / 16, height / 16)
__global__ void transpose16_naive(float* __restrict__ output, const float* __restrict__ input, int width, int height) {
    int x = blockIdx.x * 16 + threadIdx.x;
    int y = blockIdx.y * 16 + threadIdx.y;
    output[x * height + y] = input[y * width + x];
}
