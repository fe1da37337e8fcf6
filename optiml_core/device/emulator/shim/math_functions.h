// math_functions.h - CUDA's mathematical functions and intrinsics.
#pragma once
template <class T> OPTIML_INLINE T __ldg(const T* p) { return *p; }
OPTIML_INLINE float __fdividef(float a, float b) { return a / b; }
// glibc has functions of these names.
#define __expf optiml_expf
#define __logf optiml_logf
#define __sinf optiml_sinf
#define __cosf optiml_cosf
OPTIML_INLINE float optiml_expf(float a) { return expf(a); }
OPTIML_INLINE float optiml_logf(float a) { return logf(a); }
OPTIML_INLINE float optiml_sinf(float a) { return sinf(a); }
OPTIML_INLINE float optiml_cosf(float a) { return cosf(a); }
OPTIML_INLINE float rsqrtf(float a) { return 1.0f / sqrtf(a); }
OPTIML_INLINE float __frcp_rn(float a) { return 1.0f / a; }
OPTIML_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
OPTIML_INLINE float __saturatef(float a) { return a > 0 ? (a > 1 ? 1 : a) : 0; }
OPTIML_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
OPTIML_INLINE int __clz(int v) { return v ? __builtin_clz(v) : 32; }
OPTIML_INLINE int __ffs(int v) { return __builtin_ffs(v); }
OPTIML_INLINE int __float_as_int(float f) { int i; __builtin_memcpy(&i, &f, 4); return i; }
OPTIML_INLINE float __int_as_float(int i) { float f; __builtin_memcpy(&f, &i, 4); return f; }
#define OPTIML_MIN_MAX(T)                                            \
  OPTIML_INLINE constexpr T min(T a, T b) { return b < a ? b : a; }  \
  OPTIML_INLINE constexpr T max(T a, T b) { return a < b ? b : a; }
OPTIML_MIN_MAX(int) OPTIML_MIN_MAX(unsigned) OPTIML_MIN_MAX(float) OPTIML_MIN_MAX(double)
OPTIML_MIN_MAX(long) OPTIML_MIN_MAX(unsigned long) OPTIML_MIN_MAX(long long) OPTIML_MIN_MAX(unsigned long long)
#undef OPTIML_MIN_MAX
