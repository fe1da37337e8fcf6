// small_float_functions.h - the functions of cuda_fp16.h and cuda_bf16.h. H is the number, H2 the pair.
#pragma once

// Those whose names both types share, as overloads.
#define OPTIML_SHARED_NAMES(H, H2)                                                                                    \
  OPTIML_INLINE H __hadd(H a, H b) { return a + b; }                                                                  \
  OPTIML_INLINE H __hsub(H a, H b) { return a - b; }                                                                  \
  OPTIML_INLINE H __hmul(H a, H b) { return a * b; }                                                                  \
  OPTIML_INLINE H __hdiv(H a, H b) { return a / b; }                                                                  \
  OPTIML_INLINE H __hadd_rn(H a, H b) { return a + b; }                                                               \
  OPTIML_INLINE H __hsub_rn(H a, H b) { return a - b; }                                                               \
  OPTIML_INLINE H __hmul_rn(H a, H b) { return a * b; }                                                               \
  OPTIML_INLINE H __hneg(H a) { return -a; }                                                                          \
  OPTIML_INLINE H __habs(H a) { return optiml_raw16{(unsigned short)(a.__x & 0x7fff)}; }                              \
  /* one rounding: the product is exact in a double */                                                                \
  OPTIML_INLINE H __hfma(H a, H b, H c) { return H((double)(float)a * (double)(float)b + (double)(float)c); }         \
  OPTIML_INLINE H optiml_saturate(H a) { return H(__saturatef((float)a)); }                                           \
  OPTIML_INLINE H __hadd_sat(H a, H b) { return optiml_saturate(a + b); }                                             \
  OPTIML_INLINE H __hsub_sat(H a, H b) { return optiml_saturate(a - b); }                                             \
  OPTIML_INLINE H __hmul_sat(H a, H b) { return optiml_saturate(a * b); }                                             \
  OPTIML_INLINE H __hfma_sat(H a, H b, H c) { return optiml_saturate(__hfma(a, b, c)); }                              \
  OPTIML_INLINE H __hfma_relu(H a, H b, H c) { H r = __hfma(a, b, c); return (float)r < 0 ? H(0.0f) : r; }            \
  OPTIML_INLINE bool __heq(H a, H b) { return a == b; }                                                               \
  OPTIML_INLINE bool __hne(H a, H b) { return (float)a < (float)b || (float)a > (float)b; }                           \
  OPTIML_INLINE bool __hlt(H a, H b) { return a < b; }                                                                \
  OPTIML_INLINE bool __hle(H a, H b) { return a <= b; }                                                               \
  OPTIML_INLINE bool __hgt(H a, H b) { return a > b; }                                                                \
  OPTIML_INLINE bool __hge(H a, H b) { return a >= b; }                                                               \
  OPTIML_INLINE bool __hequ(H a, H b) { return !__hne(a, b); }                                                        \
  OPTIML_INLINE bool __hneu(H a, H b) { return a != b; }                                                              \
  OPTIML_INLINE bool __hltu(H a, H b) { return !(a >= b); }                                                           \
  OPTIML_INLINE bool __hleu(H a, H b) { return !(a > b); }                                                            \
  OPTIML_INLINE bool __hgtu(H a, H b) { return !(a <= b); }                                                           \
  OPTIML_INLINE bool __hgeu(H a, H b) { return !(a < b); }                                                            \
  OPTIML_INLINE bool __hisnan(H a) { return (float)a != (float)a; }                                                   \
  OPTIML_INLINE int __hisinf(H a) { float v = a; return v == __builtin_inff() ? 1 : v == -__builtin_inff() ? -1 : 0; } \
  OPTIML_INLINE H __hmax(H a, H b) { return __hisnan(a) ? b : __hisnan(b) ? a : (float)a > (float)b ? a : b; }        \
  OPTIML_INLINE H __hmin(H a, H b) { return __hisnan(a) ? b : __hisnan(b) ? a : (float)a < (float)b ? a : b; }        \
  OPTIML_INLINE H __hmax_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); }                   \
  OPTIML_INLINE H __hmin_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); }                   \
  OPTIML_INLINE H hexp(H a) { return H(expf((float)a)); }                                                             \
  OPTIML_INLINE H hexp2(H a) { return H(exp2f((float)a)); }                                                           \
  OPTIML_INLINE H hexp10(H a) { return H(exp10f((float)a)); }                                                         \
  OPTIML_INLINE H hlog(H a) { return H(logf((float)a)); }                                                             \
  OPTIML_INLINE H hlog2(H a) { return H(log2f((float)a)); }                                                           \
  OPTIML_INLINE H hlog10(H a) { return H(log10f((float)a)); }                                                         \
  OPTIML_INLINE H hsin(H a) { return H(sinf((float)a)); }                                                             \
  OPTIML_INLINE H hcos(H a) { return H(cosf((float)a)); }                                                             \
  OPTIML_INLINE H htanh(H a) { return H(tanhf((float)a)); }                                                           \
  OPTIML_INLINE H htanh_approx(H a) { return H(optiml_fast_tanhf((float)a)); }                                        \
  OPTIML_INLINE H hsqrt(H a) { return H(sqrtf((float)a)); }                                                           \
  OPTIML_INLINE H hrsqrt(H a) { return H(1.0f / sqrtf((float)a)); }                                                   \
  OPTIML_INLINE H hrcp(H a) { return H(1.0f / (float)a); }                                                            \
  OPTIML_INLINE H hfloor(H a) { return H(floorf((float)a)); }                                                         \
  OPTIML_INLINE H hceil(H a) { return H(ceilf((float)a)); }                                                           \
  OPTIML_INLINE H htrunc(H a) { return H(truncf((float)a)); }                                                         \
  OPTIML_INLINE H hrint(H a) { return H(rintf((float)a)); }                                                           \
  OPTIML_PAIRWISE2(H, H2, __hadd2, __hadd) OPTIML_PAIRWISE2(H, H2, __hsub2, __hsub) OPTIML_PAIRWISE2(H, H2, __hmul2, __hmul) \
  OPTIML_PAIRWISE2(H, H2, __h2div, __hdiv) OPTIML_PAIRWISE2(H, H2, __hmax2, __hmax) OPTIML_PAIRWISE2(H, H2, __hmin2, __hmin) \
  OPTIML_PAIRWISE2(H, H2, __hadd2_rn, __hadd) OPTIML_PAIRWISE2(H, H2, __hsub2_rn, __hsub) OPTIML_PAIRWISE2(H, H2, __hmul2_rn, __hmul) \
  OPTIML_PAIRWISE2(H, H2, __hadd2_sat, __hadd_sat) OPTIML_PAIRWISE2(H, H2, __hsub2_sat, __hsub_sat) OPTIML_PAIRWISE2(H, H2, __hmul2_sat, __hmul_sat) \
  OPTIML_PAIRWISE2(H, H2, __hmax2_nan, __hmax_nan) OPTIML_PAIRWISE2(H, H2, __hmin2_nan, __hmin_nan)                   \
  OPTIML_INLINE H2 __hfma2(H2 a, H2 b, H2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }               \
  OPTIML_INLINE H2 __hfma2_sat(H2 a, H2 b, H2 c) { return {__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)}; }   \
  OPTIML_INLINE H2 __hfma2_relu(H2 a, H2 b, H2 c) { return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)}; } \
  OPTIML_COMPARE2(H, H2, eq) OPTIML_COMPARE2(H, H2, ne) OPTIML_COMPARE2(H, H2, lt) OPTIML_COMPARE2(H, H2, le)         \
  OPTIML_COMPARE2(H, H2, gt) OPTIML_COMPARE2(H, H2, ge)                                                               \
  OPTIML_EACH(H2, __hneg2, __hneg) OPTIML_EACH(H2, __habs2, __habs) OPTIML_EACH(H2, h2exp, hexp) OPTIML_EACH(H2, h2exp2, hexp2) \
  OPTIML_EACH(H2, h2exp10, hexp10) OPTIML_EACH(H2, h2log, hlog) OPTIML_EACH(H2, h2log2, hlog2) OPTIML_EACH(H2, h2log10, hlog10) \
  OPTIML_EACH(H2, h2sin, hsin) OPTIML_EACH(H2, h2cos, hcos) OPTIML_EACH(H2, h2tanh, htanh) OPTIML_EACH(H2, h2sqrt, hsqrt) \
  OPTIML_EACH(H2, h2rsqrt, hrsqrt) OPTIML_EACH(H2, h2rcp, hrcp) OPTIML_EACH(H2, h2floor, hfloor) OPTIML_EACH(H2, h2ceil, hceil) \
  OPTIML_EACH(H2, h2trunc, htrunc) OPTIML_EACH(H2, h2rint, hrint)                                                     \
  OPTIML_INLINE H2 __hisnan2(H2 a) { return {H(__hisnan(a.x) ? 1.0f : 0.0f), H(__hisnan(a.y) ? 1.0f : 0.0f)}; }       \
  OPTIML_INLINE float __low2float(H2 a) { return a.x; }                                                               \
  OPTIML_INLINE float __high2float(H2 a) { return a.y; }                                                              \
  OPTIML_INLINE H2 __lowhigh2highlow(H2 a) { return {a.y, a.x}; }
#define OPTIML_PAIRWISE2(H, H2, name, one) OPTIML_INLINE H2 name(H2 a, H2 b) { return {one(a.x, b.x), one(a.y, b.y)}; }
#define OPTIML_EACH(H2, name, one) OPTIML_INLINE H2 name(H2 a) { return {one(a.x), one(a.y)}; }
#define OPTIML_COMPARE2(H, H2, c)                                                                                     \
  OPTIML_INLINE H2 __h##c##2(H2 a, H2 b) { return {H(__h##c(a.x, b.x) ? 1.0f : 0.0f), H(__h##c(a.y, b.y) ? 1.0f : 0.0f)}; } \
  OPTIML_INLINE bool __hb##c##2(H2 a, H2 b) { return __h##c(a.x, b.x) && __h##c(a.y, b.y); }                          \
  OPTIML_INLINE unsigned __h##c##2_mask(H2 a, H2 b) { return (__h##c(a.x, b.x) ? 0xffffu : 0u) | (__h##c(a.y, b.y) ? 0xffff0000u : 0u); }
OPTIML_SHARED_NAMES(__half, __half2)
OPTIML_SHARED_NAMES(__nv_bfloat16, __nv_bfloat162)
#undef OPTIML_SHARED_NAMES
#undef OPTIML_PAIRWISE2
#undef OPTIML_EACH
#undef OPTIML_COMPARE2

// Rounding to a smaller type towards zero, up or down: nearest, then one step back if it went too far.
template <class H> OPTIML_INLINE H optiml_directed(double v, int mode) {
  H nearest = H(v);
  double r = (float)nearest;
  bool too_high = mode == 3 ? r > v : mode == 1 && (v > 0 ? r > v : false), too_low = mode == 2 ? r < v : mode == 1 && (v < 0 ? r < v : false);
  if (!too_high && !too_low) return nearest;
  unsigned short b = nearest.__x;
  bool away = (b & 0x8000) ? too_high : too_low;  // the magnitude has to grow
  if ((b & 0x7fff) == 0) return optiml_raw16{(unsigned short)(too_low ? 1 : 0x8001)};
  return optiml_raw16{(unsigned short)(away ? b + 1 : b - 1)};
}

// Those with the type's name in theirs.
#define OPTIML_OWN_NAMES(H, H2, n, n2)                                                                                \
  OPTIML_INLINE H __float2##n(float v) { return H(v); }                                                               \
  OPTIML_INLINE H __float2##n##_rn(float v) { return H(v); }                                                          \
  OPTIML_INLINE H __float2##n##_rz(float v) { return optiml_directed<H>(v, 1); }                                      \
  OPTIML_INLINE H __float2##n##_ru(float v) { return optiml_directed<H>(v, 2); }                                      \
  OPTIML_INLINE H __float2##n##_rd(float v) { return optiml_directed<H>(v, 3); }                                      \
  OPTIML_INLINE H __double2##n(double v) { return H(v); }                                                             \
  OPTIML_INLINE float __##n##2float(H a) { return a; }                                                                \
  OPTIML_INLINE H2 __float2##n2##_rn(float v) { return {H(v), H(v)}; }                                                \
  OPTIML_INLINE H2 __floats2##n2##_rn(float a, float b) { return {H(a), H(b)}; }                                      \
  OPTIML_INLINE H2 __float22##n2##_rn(float2 v) { return {H(v.x), H(v.y)}; }                                          \
  OPTIML_INLINE float2 __##n2##2float2(H2 a) { return {a.x, a.y}; }                                                   \
  OPTIML_INLINE H2 __##n##2##n2(H a) { return {a, a}; }                                                               \
  OPTIML_INLINE H2 __##n##s2##n2(H a, H b) { return {a, b}; }                                                         \
  OPTIML_INLINE H __low2##n(H2 a) { return a.x; }                                                                     \
  OPTIML_INLINE H __high2##n(H2 a) { return a.y; }                                                                    \
  OPTIML_INLINE H2 __low2##n2(H2 a) { return {a.x, a.x}; }                                                            \
  OPTIML_INLINE H2 __high2##n2(H2 a) { return {a.y, a.y}; }                                                           \
  OPTIML_INLINE H2 __lows2##n2(H2 a, H2 b) { return {a.x, b.x}; }                                                     \
  OPTIML_INLINE H2 __highs2##n2(H2 a, H2 b) { return {a.y, b.y}; }                                                    \
  OPTIML_INLINE H2 make_##n2(H a, H b) { return {a, b}; }                                                             \
  OPTIML_INLINE short __##n##_as_short(H a) { return (short)a.__x; }                                                  \
  OPTIML_INLINE unsigned short __##n##_as_ushort(H a) { return a.__x; }                                               \
  OPTIML_INLINE H __short_as_##n(short b) { return optiml_raw16{(unsigned short)b}; }                                 \
  OPTIML_INLINE H __ushort_as_##n(unsigned short b) { return optiml_raw16{b}; }                                       \
  OPTIML_FROM_INTEGER(H, n, int, int) OPTIML_FROM_INTEGER(H, n, uint, unsigned) OPTIML_FROM_INTEGER(H, n, short, short) \
  OPTIML_FROM_INTEGER(H, n, ushort, unsigned short) OPTIML_FROM_INTEGER(H, n, ll, long long) OPTIML_FROM_INTEGER(H, n, ull, unsigned long long)
#define OPTIML_FROM_INTEGER(H, n, i, I)                                                                               \
  OPTIML_INLINE H __##i##2##n##_rn(I v) { return H((double)v); }                                                      \
  OPTIML_INLINE H __##i##2##n##_rz(I v) { return optiml_directed<H>((double)v, 1); }                                  \
  OPTIML_INLINE H __##i##2##n##_ru(I v) { return optiml_directed<H>((double)v, 2); }                                  \
  OPTIML_INLINE H __##i##2##n##_rd(I v) { return optiml_directed<H>((double)v, 3); }                                  \
  OPTIML_INLINE I __##n##2##i##_rn(H a) { return optiml_to_integer<I>(rint((double)(float)a)); }                      \
  OPTIML_INLINE I __##n##2##i##_rz(H a) { return optiml_to_integer<I>(trunc((double)(float)a)); }                     \
  OPTIML_INLINE I __##n##2##i##_ru(H a) { return optiml_to_integer<I>(ceil((double)(float)a)); }                      \
  OPTIML_INLINE I __##n##2##i##_rd(H a) { return optiml_to_integer<I>(floor((double)(float)a)); }
OPTIML_OWN_NAMES(__half, __half2, half, half2)
OPTIML_OWN_NAMES(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
#undef OPTIML_OWN_NAMES
#undef OPTIML_FROM_INTEGER
OPTIML_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
OPTIML_INLINE __half2 __halves2half2(__half a, __half b) { return {a, b}; }

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7C00U)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000U)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3C00U)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7FFFU)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFFU)
#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80U)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000U)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80U)
