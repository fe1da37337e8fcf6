// optiml: width = 4096, height = 4096, input[width * height]: uniform(0, 1), output[width * height]
// optiml: block = (32, 16), grid = (width / 32, height / 32)
__global__ void transpose_unpadded(float* output, float* input, int width, int height) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 16) {
        tile[threadIdx.y + i][threadIdx.x] = input[(y + i) * width + x];
    }
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 16) {
        output[(y + i) * height + x] = tile[threadIdx.x][threadIdx.y + i];
    }
}
