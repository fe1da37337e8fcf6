// optiml: n = 16777216, points[n * 3]: uniform(0, 1), out[n], block = 256, grid = n / 256
__global__ void field_of_structs(float* out, const float* points, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = points[3 * i] * 2.0f;
}
