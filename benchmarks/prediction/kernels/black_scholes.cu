__device__ float normal_cdf(float d) {
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float c = 0.39894228f * expf(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return d > 0 ? 1.0f - c : c;
}
// optiml: n = 16777216, price[n]: uniform(5, 30), strike[n]: uniform(1, 100), years[n]: uniform(0.25, 10), call[n], put[n], block = 128, grid = n / 128
__global__ void black_scholes(float* call, float* put, const float* price, const float* strike, const float* years, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = price[i], x = strike[i], t = years[i], r = 0.02f, v = 0.3f;
    float root = sqrtf(t);
    float d1 = (logf(s / x) + (r + 0.5f * v * v) * t) / (v * root), d2 = d1 - v * root;
    float c1 = normal_cdf(d1), c2 = normal_cdf(d2), e = expf(-r * t);
    call[i] = s * c1 - x * e * c2;
    put[i] = x * e * (1.0f - c2) - s * (1.0f - c1);
}
