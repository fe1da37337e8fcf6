// optiml: width = 8192, height = 8192, input[width * height]: uniform(0, 1), output[width * height]
// optiml: block = (16, 16), grid = (width / 16, height / 16)
__global__ void transpose16_tiled(float* __restrict__ output, const float* __restrict__ input, int width, int height) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x;
    int y = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = input[y * width + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    output[y * height + x] = tile[threadIdx.x][threadIdx.y];
}
