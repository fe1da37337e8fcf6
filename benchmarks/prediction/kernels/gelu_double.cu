// The literals are doubles.
// optiml: threads = 256, n = 6291456, input[n]: normal(0, 1), output[n], block = threads, grid = ceil_div(n, threads)
__global__ void gelu_double(float* output, const float* input, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = input[i];
        output[i] = 0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
    }
}
