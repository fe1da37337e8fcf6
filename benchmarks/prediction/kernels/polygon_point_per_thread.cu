// optiml: n = 20000000, point[n]: normal(0, 1), vertex[600]: normal(0, 1), inside[n], block = 256, grid = ceil_div(n, 256)
__global__ void polygon_point_per_thread(int* __restrict__ inside, const float2* __restrict__ point,
                                         const float2* __restrict__ vertex, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int c = 0;
        float2 p = point[i];
        int k = 600 - 1;
        for (int j = 0; j < 600; k = j++) {
            float2 vj = vertex[j];
            float2 vk = vertex[k];
            float slope = (vk.x - vj.x) / (vk.y - vj.y);
            if (((vj.y > p.y) != (vk.y > p.y)) && (p.x < slope * (p.y - vj.y) + vj.x)) {
                c = !c;
            }
        }
        inside[i] = c;
    }
}
