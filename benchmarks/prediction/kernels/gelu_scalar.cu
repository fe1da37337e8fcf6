// optiml: threads = 256, n = 6291456, input[n]: normal(0, 1), output[n], block = threads, grid = ceil_div(n, threads)
__global__ void gelu_scalar(float* output, const float* input, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = input[i];
        float cube = 0.044715f * x * x * x;
        output[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + cube)));
    }
}
