// fp8.h - conversions of 8-bit floating-point numbers (OCP 8-bit Floating Point Specification).
#pragma once
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;

OPTIML_INLINE float optiml_fp8_to_float(unsigned char b, __nv_fp8_interpretation_t kind) {
  if (kind == __NV_E5M2) return optiml_half_to_float((unsigned short)(b << 8));  // the upper byte of a half
  int exponent = b >> 3 & 15, mantissa = b & 7;
  float v = exponent == 15 && mantissa == 7 ? __builtin_nanf("") : exponent ? ldexpf(8 + mantissa, exponent - 10) : ldexpf(mantissa, -9);
  return b & 0x80 ? -v : v;
}
OPTIML_INLINE unsigned char optiml_double_to_fp8(double v, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
  unsigned char sign = __builtin_signbit(v) ? 0x80 : 0;
  bool e4m3 = kind == __NV_E4M3;
  double greatest = e4m3 ? 448.0 : 57344.0;
  if (v != v) return e4m3 ? 0x7f : 0x7e;
  double r = optiml_round_to(v, e4m3 ? 3 : 2, e4m3 ? -6 : -14, greatest, __builtin_inf());
  if (r < 0) r = -r;
  if (r > greatest) return sign | (saturate == __NV_SATFINITE ? (e4m3 ? 0x7e : 0x7b) : (e4m3 ? 0x7f : 0x7c));
  if (!e4m3) return sign | (unsigned char)(optiml_float_to_half((float)r) >> 8);
  if (r == 0) return sign;
  int exponent = ilogb(r);
  if (exponent < -6) return sign | (unsigned char)(r * 512);
  return sign | (unsigned char)((exponent + 7) << 3 | ((int)(ldexp(r, 3 - exponent)) & 7));
}
OPTIML_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float v, __nv_saturation_t s, __nv_fp8_interpretation_t k) { return optiml_double_to_fp8(v, s, k); }
OPTIML_INLINE __nv_fp8_storage_t __nv_cvt_double_to_fp8(double v, __nv_saturation_t s, __nv_fp8_interpretation_t k) { return optiml_double_to_fp8(v, s, k); }
OPTIML_INLINE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
  return optiml_double_to_fp8(optiml_half_to_float(v.x), s, k); }
OPTIML_INLINE __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw v, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
  return optiml_double_to_fp8(optiml_bfloat16_to_float(v.x), s, k); }
OPTIML_INLINE __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t s, __nv_fp8_interpretation_t k) {
  return (unsigned short)(optiml_double_to_fp8(v.x, s, k) | optiml_double_to_fp8(v.y, s, k) << 8); }
OPTIML_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t v, __nv_fp8_interpretation_t k) {
  return {optiml_float_to_half(optiml_fp8_to_float(v, k))}; }
OPTIML_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t v, __nv_fp8_interpretation_t k) {
  return {optiml_float_to_half(optiml_fp8_to_float((unsigned char)v, k)), optiml_float_to_half(optiml_fp8_to_float((unsigned char)(v >> 8), k))}; }

template <__nv_fp8_interpretation_t K> struct optiml_fp8 {
  __nv_fp8_storage_t __x;
  optiml_fp8() = default;
  OPTIML_METHOD explicit optiml_fp8(float v) : __x(optiml_double_to_fp8(v, __NV_SATFINITE, K)) {}
  OPTIML_METHOD explicit optiml_fp8(double v) : __x(optiml_double_to_fp8(v, __NV_SATFINITE, K)) {}
  OPTIML_METHOD explicit optiml_fp8(int v) : __x(optiml_double_to_fp8(v, __NV_SATFINITE, K)) {}
  OPTIML_METHOD explicit optiml_fp8(__half v) : __x(optiml_double_to_fp8((float)v, __NV_SATFINITE, K)) {}
  OPTIML_METHOD explicit optiml_fp8(__nv_bfloat16 v) : __x(optiml_double_to_fp8((float)v, __NV_SATFINITE, K)) {}
  OPTIML_METHOD explicit operator float() const { return optiml_fp8_to_float(__x, K); }
  OPTIML_METHOD explicit operator double() const { return optiml_fp8_to_float(__x, K); }
  OPTIML_METHOD explicit operator __half() const { return __half(optiml_fp8_to_float(__x, K)); }
  OPTIML_METHOD explicit operator __nv_bfloat16() const { return __nv_bfloat16(optiml_fp8_to_float(__x, K)); }
};
template <__nv_fp8_interpretation_t K> struct optiml_fp8x2 {
  __nv_fp8x2_storage_t __x;
  optiml_fp8x2() = default;
  OPTIML_METHOD explicit optiml_fp8x2(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, K)) {}
  OPTIML_METHOD explicit operator float2() const {
    return {optiml_fp8_to_float((unsigned char)__x, K), optiml_fp8_to_float((unsigned char)(__x >> 8), K)}; }
};
template <__nv_fp8_interpretation_t K> struct optiml_fp8x4 {
  __nv_fp8x4_storage_t __x;
  optiml_fp8x4() = default;
  OPTIML_METHOD explicit optiml_fp8x4(float4 v)
      : __x(__nv_cvt_float2_to_fp8x2({v.x, v.y}, __NV_SATFINITE, K) | (unsigned)__nv_cvt_float2_to_fp8x2({v.z, v.w}, __NV_SATFINITE, K) << 16) {}
  OPTIML_METHOD explicit operator float4() const {
    return {optiml_fp8_to_float((unsigned char)__x, K), optiml_fp8_to_float((unsigned char)(__x >> 8), K),
            optiml_fp8_to_float((unsigned char)(__x >> 16), K), optiml_fp8_to_float((unsigned char)(__x >> 24), K)}; }
};
using __nv_fp8_e4m3 = optiml_fp8<__NV_E4M3>;
using __nv_fp8_e5m2 = optiml_fp8<__NV_E5M2>;
using __nv_fp8x2_e4m3 = optiml_fp8x2<__NV_E4M3>;
using __nv_fp8x2_e5m2 = optiml_fp8x2<__NV_E5M2>;
using __nv_fp8x4_e4m3 = optiml_fp8x4<__NV_E4M3>;
using __nv_fp8x4_e5m2 = optiml_fp8x4<__NV_E5M2>;
