// No memory in the loop.
// optiml: n = 4194304, in[n]: uniform(0, 1), out[n], steps = 256, block = 256, grid = n / 256
__global__ void iterate(float* out, const float* in, int steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    for (int s = 0; s < steps; s++) x = 3.7f * x * (1.0f - x);
    out[i] = x;
}
