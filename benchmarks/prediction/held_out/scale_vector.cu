// optiml: n = 33554432, a = 1.5, x[n]: uniform(0, 1), y[n]: uniform(0, 1), block = 256, grid = n / 1024
__global__ void scale_vector(float* y, const float* x, float a, int n) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i < n) {
        float4 u = *(const float4*)(x + i), v = *(const float4*)(y + i);
        v.x += a * u.x; v.y += a * u.y; v.z += a * u.z; v.w += a * u.w;
        *(float4*)(y + i) = v;
    }
}
