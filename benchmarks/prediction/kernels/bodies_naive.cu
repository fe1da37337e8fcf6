// optiml: n = 32768, p[n]: normal(0, 1), force[n], block = 256, grid = n / 256
__global__ void bodies_naive(float4* force, const float4* p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = p[i];
    float fx = 0.0f, fy = 0.0f, fz = 0.0f;
    for (int j = 0; j < n; j++) {
        float4 other = p[j];
        float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
        float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f);
        float s = other.w * r * r * r;
        fx += s * dx;
        fy += s * dy;
        fz += s * dz;
    }
    force[i] = make_float4(fx, fy, fz, 0.0f);
}
