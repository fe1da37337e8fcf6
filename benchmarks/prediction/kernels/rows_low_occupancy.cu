// A large static array leaves room for few blocks.
// optiml: n = 33554432, input[n]: uniform(0, 1), output[n], block = 64, grid = n / 64
__global__ void rows_low_occupancy(float* output, const float* input, int n) {
    __shared__ float buffer[11000];
    int i = blockIdx.x * 64 + threadIdx.x;
    buffer[threadIdx.x] = input[i];
    __syncthreads();
    output[i] = buffer[63 - threadIdx.x] * 2.0f;
}
