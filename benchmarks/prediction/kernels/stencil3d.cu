// optiml: n = 384, input[n * n * n]: uniform(0, 1), output[n * n * n], block = (128, 2, 1), grid = (n / 128, n / 2, n)
__global__ void stencil3d(float* output, const float* input, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= n - 1 || y >= n - 1 || z >= n - 1) return;
    int i = (z * n + y) * n + x;
    output[i] = 0.4f * input[i] + 0.1f * (input[i - 1] + input[i + 1] + input[i - n] + input[i + n] + input[i - n * n] + input[i + n * n]);
}
