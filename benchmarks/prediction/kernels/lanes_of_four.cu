// A quarter of each warp works.
// optiml: n = 8388608, input[n]: uniform(0, 1), output[n], block = 256, grid = n / 256
__global__ void lanes_of_four(float* output, const float* input, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = input[i];
    if (i % 4 == 0) {
        for (int k = 0; k < 64; k++) v = v * 1.0001f + 0.5f * input[(i + k) & (n - 1)];
    }
    output[i] = v;
}
