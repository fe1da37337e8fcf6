// optiml: n = 16777216, pixels[n * 4]: uniform(0, 255), out[n], block = 256, grid = n / 256
__global__ void grey(float* out, const unsigned char* pixels, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 0.3f * pixels[4 * i] + 0.59f * pixels[4 * i + 1] + 0.11f * pixels[4 * i + 2];
}
