// optiml: n = 16777216, in[n]: uniform(0, 1), out[n], block = 256, grid = n / 256
__global__ void polynomial_double(double* out, const double* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = in[i], s = 0.0;
#pragma unroll
    for (int k = 0; k < 48; k++) s = s * x + 0.001 * k;
    out[i] = s;
}
