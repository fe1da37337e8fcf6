// optiml: width = 1920, height = 1080, image[width * height]: uniform(0, 2147483647), counts[256 * 1024]
// optiml: block = (32, 4), grid = (16, 16)
__global__ void histogram_shared(const unsigned* image, int width, int height, unsigned* counts) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int nx = blockDim.x * gridDim.x, ny = blockDim.y * gridDim.y;
    int thread = threadIdx.x + threadIdx.y * blockDim.x, threads = blockDim.x * blockDim.y;
    __shared__ unsigned own[3 * 256 + 3];
    for (int i = thread; i < 3 * 256 + 3; i += threads) own[i] = 0;
    __syncthreads();
    for (int column = x; column < width; column += nx) {
        for (int row = y; row < height; row += ny) {
            unsigned pixel = image[row * width + column];
#pragma unroll
            for (int channel = 0; channel < 3; ++channel) {
                atomicAdd(&own[256 * channel + (pixel >> (8 * channel) & 255u) + channel], 1u);
            }
        }
    }
    __syncthreads();
    counts += (blockIdx.x + blockIdx.y * gridDim.x) * 1024;
    for (int i = thread; i < 256; i += threads) {
#pragma unroll
        for (int channel = 0; channel < 3; ++channel) {
            counts[i + 256 * channel] = own[i + 256 * channel + channel];
        }
    }
}
