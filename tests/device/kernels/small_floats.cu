//// half arithmetic rounds after every operation
//// launch 1, 256
//// argument normal(256, dtype=f16)
//// argument normal(256, seed=1, dtype=f16)
//// argument zeros(256 * 5, f16)
//// expect 2 = np.concatenate([a[0] + a[1], a[0] * a[1], a[0] / a[1], (a[0] * a[1]) + a[0], (a[0].astype(f64) * a[1].astype(f64) + a[0].astype(f64)).astype(f16)])
__global__ void k(const half* a, const half* b, half* o) {
  int t = threadIdx.x; half x = a[t], y = b[t];
  o[t] = x + y; o[t + 256] = __hmul(x, y); o[t + 512] = x / y; o[t + 768] = x * y + x; o[t + 1024] = __hfma(x, y, x);
}

//// pairs of halves
//// launch 1, 64
//// argument normal(128, dtype=f16)
//// argument normal(128, seed=1, dtype=f16)
//// argument zeros(128 * 3, f16)
//// argument zeros(128)
//// expect 2 = np.concatenate([a[0] + a[1], np.maximum(a[0], a[1]), a[0].reshape(-1, 2)[:, ::-1].reshape(-1)])
//// expect 3 = a[0].astype(f32)
__global__ void k(const half2* a, const half2* b, half2* o, float2* f) {
  int t = threadIdx.x;
  o[t] = __hadd2(a[t], b[t]); o[t + 64] = __hmax2(a[t], b[t]); o[t + 128] = __lowhigh2highlow(a[t]);
  f[t] = __half22float2(a[t]);
}

//// every half converts to float and back
//// launch 256, 256
//// argument np.arange(65536).astype(np.uint16)
//// argument zeros(65536)
//// argument zeros(65536, np.uint16)
//// expect 1 = a[0].view(f16).astype(f32)
//// expect 2 = np.where(np.isnan(a[0].view(f16)), 0x7fff, a[0]).astype(np.uint16)
__global__ void k(const half* a, float* f, half* h) {
  int i = blockIdx.x * 256 + threadIdx.x; float v = __half2float(a[i]);
  f[i] = v; h[i] = __float2half(v);
}

//// floats round to the nearest half, ties to even
//// launch 16, 256
//// argument np.concatenate([normal(2048, scale=1e-4), normal(1024, seed=2, scale=1e5), (np.arange(1024) + 0.5).astype(f32) * f32(2.0 ** -24)]).astype(f32)
//// argument zeros(4096, f16)
//// expect 1 = a[0].astype(f16)
__global__ void k(const float* a, half* h) { int i = blockIdx.x * 256 + threadIdx.x; h[i] = __float2half_rn(a[i]); }

//// bfloat16
//// launch 1, 256
//// argument normal(256, dtype=bf16)
//// argument normal(256, seed=1, dtype=bf16)
//// argument zeros(256 * 3, bf16)
//// expect 2 = np.concatenate([(a[0].astype(f32) + a[1].astype(f32)).astype(bf16), (a[0].astype(f32) * a[1].astype(f32)).astype(bf16), (a[0].astype(f32) + 1).astype(bf16)])
__global__ void k(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* o) {
  int t = threadIdx.x;
  o[t] = a[t] + b[t]; o[t + 256] = __hmul(a[t], b[t]); o[t + 512] = __float2bfloat16(__bfloat162float(a[t]) + 1.0f);
}

//// pairs of bfloat16
//// launch 1, 64
//// argument normal(128, dtype=bf16)
//// argument zeros(128, bf16)
//// argument zeros(128)
//// expect 1 = (a[0].astype(f32) * a[0].astype(f32)).astype(bf16)
//// expect 2 = a[0].astype(f32)
__global__ void k(const __nv_bfloat162* a, __nv_bfloat162* o, float2* f) {
  int t = threadIdx.x;
  o[t] = __hmul2(a[t], a[t]); f[t] = __bfloat1622float2(a[t]);
}

//// conversions of halves to and from integers
//// launch 1, 1
//// argument zeros(6, i32)
//// argument zeros(3, f16)
//// expect 0 = np.array([2, 2, 3, -2, 15360, 1])
//// expect 1 = np.array([2048, 2050, 65504], f16)
__global__ void k(int* o, half* h) {
  half x = __float2half(2.5f);
  o[0] = __half2int_rn(x); o[1] = __half2int_rz(x); o[2] = __half2int_ru(x); o[3] = (int)-x; o[4] = __half_as_ushort(__float2half(1.0f)); o[5] = __hgt(x, CUDART_ONE_FP16);
  h[0] = __int2half_rn(2049); h[1] = __int2half_ru(2049); h[2] = __int2half_rz(70000);
}

//// eight-bit floats
//// launch 1, 256
//// argument normal(256, scale=100)
//// argument zeros(256, u8)
//// argument zeros(256, u8)
//// argument zeros(256)
//// expect 1 = np.clip(a[0], -448, 448).astype(ml_dtypes.float8_e4m3fn).view(u8)
//// expect 2 = a[0].astype(ml_dtypes.float8_e5m2).view(u8)
//// expect 3 = np.arange(256).astype(u8).view(ml_dtypes.float8_e4m3fn).astype(f32)
__global__ void k(const float* a, __nv_fp8_e4m3* b, __nv_fp8_e5m2* c, float* f) {
  int t = threadIdx.x;
  b[t] = __nv_fp8_e4m3(a[t]); c[t] = __nv_fp8_e5m2(a[t]);
  __nv_fp8_e4m3 v; v.__x = (unsigned char)t; f[t] = float(v);
}
