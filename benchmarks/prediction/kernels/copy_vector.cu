// optiml: threads = 256, n = 67108864, input[n]: uniform(0, 1), output[n], block = threads, grid = ceil_div(n, threads * 4)
__global__ void copy_vector(float* output, const float* input, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i < n) *(float4*)(output + i) = *(const float4*)(input + i);
}
