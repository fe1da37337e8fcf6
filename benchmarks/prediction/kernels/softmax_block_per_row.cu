// Row softmax with a block a row: warp and block reductions, eight loads in flight.
__device__ float warp_max(float v) {
    for (int step = 16; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}
__device__ float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}
// optiml: threads = 512, rows = 8192, columns = 50257, input[rows * columns]: normal(0, 1), output[rows * columns]
// optiml: block = threads, grid = rows, shared = threads / 32 * 8
__global__ void softmax_block_per_row(float* output, const float* input, int rows, int columns) {
    extern __shared__ float partial[];
    const int ahead = 8;
    int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float* x = input + blockIdx.x * columns;
    float* y = output + blockIdx.x * columns;
    float largest = -INFINITY;
    for (int c = threadIdx.x; c < columns; c += blockDim.x * ahead) {
#pragma unroll
        for (int u = 0; u < ahead; u++) {
            largest = fmaxf(largest, x[min(columns - 1, c + u * (int)blockDim.x)]);
        }
    }
    largest = warp_max(largest);
    if (lane == 0) partial[warp] = largest;
    __syncthreads();
    largest = partial[0];
    for (int w = 1; w < warps; w++) largest = fmaxf(largest, partial[w]);
    float sum = 0.0f;
    for (int c = threadIdx.x; c < columns; c += blockDim.x * ahead) {
        float ready[ahead];
#pragma unroll
        for (int u = 0; u < ahead; u++) {
            ready[u] = __ldcs(&x[min(columns - 1, c + u * (int)blockDim.x)]);
        }
#pragma unroll
        for (int u = 0; u < ahead; u++) {
            if (c + u * (int)blockDim.x < columns) {
                float e = expf(ready[u] - largest);
                y[c + u * blockDim.x] = e;
                sum += e;
            }
        }
    }
    sum = warp_sum(sum);
    if (lane == 0) partial[warps + warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < warps; w++) sum += partial[warps + w];
    for (int c = threadIdx.x; c < columns; c += blockDim.x * ahead) {
        float ready[ahead];
#pragma unroll
        for (int u = 0; u < ahead; u++) {
            ready[u] = y[min(columns - 1, c + u * (int)blockDim.x)];
        }
#pragma unroll
        for (int u = 0; u < ahead; u++) {
            if (c + u * (int)blockDim.x < columns) {
                y[c + u * blockDim.x] = ready[u] / sum;
            }
        }
    }
}
