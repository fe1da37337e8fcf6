// approximate_functions.h - functions that are approximate on a device. The runtime gives them the
// error that the CUDA C++ Programming Guide documents ("Mathematical Functions"), the same for the
// same argument, so that replacing an exact function by one of them does not look exact.
#pragma once
extern "C" {
float optiml_device_fast(int function, float a, float b) __attribute__((const));
}
enum { OPTIML_FAST_EXP, OPTIML_FAST_EXP10, OPTIML_FAST_LOG, OPTIML_FAST_LOG2, OPTIML_FAST_LOG10, OPTIML_FAST_SIN, OPTIML_FAST_COS,
       OPTIML_FAST_TAN, OPTIML_FAST_POW, OPTIML_FAST_DIVIDE, OPTIML_FAST_RSQRT, OPTIML_FAST_TANH };
#define OPTIML_FAST(name, function) OPTIML_INLINE float name(float a) { return optiml_device_fast(function, a, 0); }
OPTIML_FAST(optiml_fast_expf, OPTIML_FAST_EXP)
OPTIML_FAST(optiml_fast_exp10f, OPTIML_FAST_EXP10)
OPTIML_FAST(optiml_fast_logf, OPTIML_FAST_LOG)
OPTIML_FAST(optiml_fast_log2f, OPTIML_FAST_LOG2)
OPTIML_FAST(optiml_fast_log10f, OPTIML_FAST_LOG10)
OPTIML_FAST(optiml_fast_sinf, OPTIML_FAST_SIN)
OPTIML_FAST(optiml_fast_cosf, OPTIML_FAST_COS)
OPTIML_FAST(optiml_fast_tanf, OPTIML_FAST_TAN)
OPTIML_FAST(optiml_fast_tanhf, OPTIML_FAST_TANH)
OPTIML_FAST(rsqrtf, OPTIML_FAST_RSQRT)
OPTIML_FAST(rsqrt, OPTIML_FAST_RSQRT)
#undef OPTIML_FAST
OPTIML_INLINE float optiml_fast_powf(float a, float b) { return optiml_device_fast(OPTIML_FAST_POW, a, b); }
OPTIML_INLINE float __fdividef(float a, float b) { return optiml_device_fast(OPTIML_FAST_DIVIDE, a, b); }
OPTIML_INLINE float fdividef(float a, float b) { return a / b; }
OPTIML_INLINE void optiml_fast_sincosf(float a, float* s, float* c) { *s = optiml_fast_sinf(a); *c = optiml_fast_cosf(a); }
// Macros, because glibc has functions of these names.
#define __expf optiml_fast_expf
#define __exp10f optiml_fast_exp10f
#define __logf optiml_fast_logf
#define __log2f optiml_fast_log2f
#define __log10f optiml_fast_log10f
#define __sinf optiml_fast_sinf
#define __cosf optiml_fast_cosf
#define __tanf optiml_fast_tanf
#define __tanhf optiml_fast_tanhf
#define __powf optiml_fast_powf
#define __sincosf optiml_fast_sincosf

// What -use_fast_math makes of the plain functions: overloads, so that double keeps its own.
#define OPTIML_FAST_OVERLOAD(name)                                                                  \
  OPTIML_INLINE float optiml_fastmath_##name(float a) { return optiml_fast_##name##f(a); }          \
  template <class T> OPTIML_INLINE auto optiml_fastmath_##name(T a) { return ::std::name(a); }
OPTIML_FAST_OVERLOAD(exp) OPTIML_FAST_OVERLOAD(log) OPTIML_FAST_OVERLOAD(log2) OPTIML_FAST_OVERLOAD(log10)
OPTIML_FAST_OVERLOAD(sin) OPTIML_FAST_OVERLOAD(cos) OPTIML_FAST_OVERLOAD(tan)
#undef OPTIML_FAST_OVERLOAD
OPTIML_INLINE float optiml_fastmath_pow(float a, float b) { return optiml_fast_powf(a, b); }
template <class A, class B> OPTIML_INLINE auto optiml_fastmath_pow(A a, B b) { return ::std::pow(a, b); }
namespace std {
using ::optiml_fastmath_exp; using ::optiml_fastmath_log; using ::optiml_fastmath_log2; using ::optiml_fastmath_log10;
using ::optiml_fastmath_sin; using ::optiml_fastmath_cos; using ::optiml_fastmath_tan; using ::optiml_fastmath_pow;
}
