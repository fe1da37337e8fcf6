// Each block adds its row to one vector.
// optiml: rows = 4096, columns = 1024, x[rows * columns]: uniform(0, 1), sums[columns]: zeros, block = 256, grid = rows
__global__ void atomic_rows(float* sums, const float* x, int columns) {
    for (int c = threadIdx.x; c < columns; c += blockDim.x) atomicAdd(&sums[c], x[blockIdx.x * columns + c]);
}
