// 128 x 128 x 16 block tiles, 64 x 64 warp tiles, 8 x 4 register tiles in four column steps, 128-bit loads.
// optiml: m = 4096, n = 4096, k = 4096, alpha = 0.5, beta = 3.0, a[m * k]: normal(0, 1), b[k * n]: normal(0, 1), c[m * n]: normal(0, 1)
// optiml: block = 128, grid = (n / 128, m / 128)
__global__ void __launch_bounds__(128) sgemm_warp_tiles(int m, int n, int k, float alpha, float* a, float* b, float beta,
                                                        float* c) {
    __shared__ float tile_a[16 * 128];  // transposed: depth by row
    __shared__ float tile_b[16 * 128];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_column = warp % 2, warp_row = warp / 2;
    const int lane_column = lane % 4, lane_row = lane / 4;
    a += blockIdx.y * 128 * k;
    b += blockIdx.x * 128;
    c += (blockIdx.y * 128 + warp_row * 64) * n + blockIdx.x * 128 + warp_column * 64;
    const int a_row = threadIdx.x / 4, a_quad = threadIdx.x % 4;
    const int b_row = threadIdx.x / 32, b_quad = threadIdx.x % 32;
    float result[8 * 4 * 4] = {0.0f};
    float part_a[8], part_b[16];
    for (int depth = 0; depth < k; depth += 16) {
        for (int offset = 0; offset < 128; offset += 32) {
            const float4 v = *(const float4*)&a[(a_row + offset) * k + a_quad * 4];
            tile_a[(a_quad * 4 + 0) * 128 + a_row + offset] = v.x;
            tile_a[(a_quad * 4 + 1) * 128 + a_row + offset] = v.y;
            tile_a[(a_quad * 4 + 2) * 128 + a_row + offset] = v.z;
            tile_a[(a_quad * 4 + 3) * 128 + a_row + offset] = v.w;
        }
        for (int offset = 0; offset < 16; offset += 4) {
            *(float4*)&tile_b[(b_row + offset) * 128 + b_quad * 4] = *(const float4*)&b[(b_row + offset) * n + b_quad * 4];
        }
        __syncthreads();
        for (int d = 0; d < 16; ++d) {
            for (int i = 0; i < 8; ++i) {
                part_a[i] = tile_a[d * 128 + warp_row * 64 + lane_row * 8 + i];
            }
            for (int s = 0; s < 4; ++s) {
                for (int j = 0; j < 4; ++j) {
                    part_b[s * 4 + j] = tile_b[d * 128 + warp_column * 64 + s * 16 + lane_column * 4 + j];
                }
            }
            for (int s = 0; s < 4; ++s) {
                for (int i = 0; i < 8; ++i) {
                    for (int j = 0; j < 4; ++j) {
                        result[i * 16 + s * 4 + j] += part_a[i] * part_b[s * 4 + j];
                    }
                }
            }
        }
        a += 16;
        b += 16 * n;
        __syncthreads();
    }
    for (int s = 0; s < 4; ++s) {
        for (int i = 0; i < 8; ++i) {
            float4* place = (float4*)&c[(lane_row * 8 + i) * n + s * 16 + lane_column * 4];
            float4 v = *place;
            v.x = alpha * result[i * 16 + s * 4 + 0] + beta * v.x;
            v.y = alpha * result[i * 16 + s * 4 + 1] + beta * v.y;
            v.z = alpha * result[i * 16 + s * 4 + 2] + beta * v.z;
            v.w = alpha * result[i * 16 + s * 4 + 3] + beta * v.w;
            *place = v;
        }
    }
}
