// Eight points a thread: the edge's slope is computed once for all of them.
// optiml: n = 20000000, point[n]: normal(0, 1), vertex[600]: normal(0, 1), inside[n], block = 256, grid = ceil_div(n, 256)
__global__ void polygon_points_per_thread(int* __restrict__ inside, const float2* __restrict__ point,
                                          const float2* __restrict__ vertex, int n) {
    int i = blockIdx.x * 256 * 8 + threadIdx.x;
    if (i < n) {
        int c[8];
        float2 p[8];
#pragma unroll
        for (int t = 0; t < 8; t++) {
            c[t] = 0;
            if (i + 256 * t < n) p[t] = point[i + 256 * t];
        }
        int k = 600 - 1;
        for (int j = 0; j < 600; k = j++) {
            float2 vj = vertex[j];
            float2 vk = vertex[k];
            float slope = (vk.x - vj.x) / (vk.y - vj.y);
#pragma unroll
            for (int t = 0; t < 8; t++) {
                if (((vj.y > p[t].y) != (vk.y > p[t].y)) && (p[t].x < slope * (p[t].y - vj.y) + vj.x)) {
                    c[t] = !c[t];
                }
            }
        }
#pragma unroll
        for (int t = 0; t < 8; t++) {
            if (i + 256 * t < n) inside[i + 256 * t] = c[t];
        }
    }
}
