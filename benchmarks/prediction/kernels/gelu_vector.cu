__device__ float gelu(float x) {
    float cube = 0.044715f * x * x * x;
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + cube)));
}
// optiml: threads = 256, n = 6291456, input[n]: normal(0, 1), output[n], block = threads, grid = ceil_div(n, threads * 4)
__global__ void gelu_vector(float* output, const float* input, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i < n) {
        float4 v = __ldcs((const float4*)(input + i));
        v.x = gelu(v.x);
        v.y = gelu(v.y);
        v.z = gelu(v.z);
        v.w = gelu(v.w);
        *(float4*)(output + i) = v;
    }
}
