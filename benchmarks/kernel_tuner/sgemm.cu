// Matrix product with every choice left open: threads and elements a thread in both directions, depth of the shared tiles.
#define BLOCK_X 16  // optiml: 8, 16, 32
#define BLOCK_Y 16  // optiml: 4, 8, 16, 32
#define TILE_X 1    // optiml: 1, 2, 4, 8
#define TILE_Y 1    // optiml: 1, 2, 4, 8
#define TILE_K 16   // optiml: 8, 16, 32

// optiml: BLOCK_X = 16, BLOCK_Y = 16, TILE_X = 1, TILE_Y = 1, n = 2048
// optiml: a[n * n]: normal, b[n * n]: normal, c[n * n]
// optiml: block = (BLOCK_X, BLOCK_Y), grid = (ceil_div(n, BLOCK_X * TILE_X), ceil_div(n, BLOCK_Y * TILE_Y))
extern "C" __global__ void sgemm(const float* a, const float* b, float* c, int n) {
    __shared__ float rows[TILE_K][BLOCK_Y * TILE_Y];
    __shared__ float columns[TILE_K][BLOCK_X * TILE_X];
    const int first_row = blockIdx.y * BLOCK_Y * TILE_Y;
    const int first_column = blockIdx.x * BLOCK_X * TILE_X;
    const int thread = threadIdx.y * BLOCK_X + threadIdx.x;
    float sums[TILE_Y][TILE_X];
    for (int i = 0; i < TILE_Y; i++) {
        for (int j = 0; j < TILE_X; j++) {
            sums[i][j] = 0;
        }
    }
    for (int start = 0; start < n; start += TILE_K) {
        for (int i = thread; i < TILE_K * BLOCK_Y * TILE_Y; i += BLOCK_X * BLOCK_Y) {
            int row = first_row + i / TILE_K, k = start + i % TILE_K;
            rows[i % TILE_K][i / TILE_K] = row < n && k < n ? a[row * n + k] : 0;
        }
        for (int i = thread; i < TILE_K * BLOCK_X * TILE_X; i += BLOCK_X * BLOCK_Y) {
            int column = first_column + i % (BLOCK_X * TILE_X), k = start + i / (BLOCK_X * TILE_X);
            columns[i / (BLOCK_X * TILE_X)][i % (BLOCK_X * TILE_X)] = column < n && k < n ? b[k * n + column] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE_K; k++) {
#pragma unroll
            for (int i = 0; i < TILE_Y; i++) {
#pragma unroll
                for (int j = 0; j < TILE_X; j++) {
                    sums[i][j] += rows[k][threadIdx.y + i * BLOCK_Y] * columns[k][threadIdx.x + j * BLOCK_X];
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < TILE_Y; i++) {
        for (int j = 0; j < TILE_X; j++) {
            int row = first_row + threadIdx.y + i * BLOCK_Y, column = first_column + threadIdx.x + j * BLOCK_X;
            if (row < n && column < n) {
                c[row * n + column] = sums[i][j];
            }
        }
    }
}
