// math_functions.h - CUDA's mathematical functions beyond the C library's, and the intrinsics that
// round as told. What is approximate on a device is in approximate_functions.h.
#pragma once
extern "C" {
// operation: 0 add, 1 subtract, 2 multiply, 3 divide, 4 a * b + c, 5 square root, 6 1 / sqrt(a); mode: 0 nearest, 1 zero, 2 up, 3 down
float optiml_device_round_float(int operation, int mode, float a, float b, float c) __attribute__((const));
double optiml_device_round_double(int operation, int mode, double a, double b, double c) __attribute__((const));
float optiml_device_to_float(long double v, int mode) __attribute__((const));
double optiml_device_to_double(long double v, int mode) __attribute__((const));
double optiml_device_special(int function, double a) __attribute__((const));
}
enum { OPTIML_ERFINV, OPTIML_ERFCINV, OPTIML_ERFCX, OPTIML_NORMCDF, OPTIML_NORMCDFINV, OPTIML_SINPI, OPTIML_COSPI, OPTIML_I0, OPTIML_I1 };

#define OPTIML_MIN_MAX(T)                                                     \
  OPTIML_INLINE constexpr T min(T a, T b) { return b < a ? b : a; }           \
  OPTIML_INLINE constexpr T max(T a, T b) { return a < b ? b : a; }
#define OPTIML_MIN_MAX_MIXED(R, A, B)                                         \
  OPTIML_INLINE constexpr R min(A a, B b) { return min((R)a, (R)b); }         \
  OPTIML_INLINE constexpr R min(B a, A b) { return min((R)a, (R)b); }         \
  OPTIML_INLINE constexpr R max(A a, B b) { return max((R)a, (R)b); }         \
  OPTIML_INLINE constexpr R max(B a, A b) { return max((R)a, (R)b); }
OPTIML_MIN_MAX(int) OPTIML_MIN_MAX(unsigned) OPTIML_MIN_MAX(long) OPTIML_MIN_MAX(unsigned long)
OPTIML_MIN_MAX(long long) OPTIML_MIN_MAX(unsigned long long)
// A NaN gives way to a number, as in fminf.
OPTIML_INLINE float min(float a, float b) { return fminf(a, b); }
OPTIML_INLINE float max(float a, float b) { return fmaxf(a, b); }
OPTIML_INLINE double min(double a, double b) { return fmin(a, b); }
OPTIML_INLINE double max(double a, double b) { return fmax(a, b); }
OPTIML_INLINE long double min(long double a, long double b) { return fminl(a, b); }
OPTIML_INLINE long double max(long double a, long double b) { return fmaxl(a, b); }
OPTIML_MIN_MAX_MIXED(unsigned, int, unsigned) OPTIML_MIN_MAX_MIXED(unsigned long, long, unsigned long)
OPTIML_MIN_MAX_MIXED(unsigned long long, long long, unsigned long long)
#define OPTIML_MIN_MAX_FLOATS(R, A, B)                                        \
  OPTIML_INLINE R min(A a, B b) { return min((R)a, (R)b); }                   \
  OPTIML_INLINE R min(B a, A b) { return min((R)a, (R)b); }                   \
  OPTIML_INLINE R max(A a, B b) { return max((R)a, (R)b); }                   \
  OPTIML_INLINE R max(B a, A b) { return max((R)a, (R)b); }
OPTIML_MIN_MAX_FLOATS(double, float, double) OPTIML_MIN_MAX_FLOATS(long double, double, long double)
#undef OPTIML_MIN_MAX_FLOATS
#undef OPTIML_MIN_MAX_MIXED
#undef OPTIML_MIN_MAX
OPTIML_INLINE int umin(unsigned a, unsigned b) { return min(a, b); }
OPTIML_INLINE int umax(unsigned a, unsigned b) { return max(a, b); }
OPTIML_INLINE long long llmin(long long a, long long b) { return min(a, b); }
OPTIML_INLINE long long llmax(long long a, long long b) { return max(a, b); }

// name(double), namef(float) and an overload for float, by one expression in T.
#define OPTIML_FUNCTION(name, expression)                                                        \
  OPTIML_INLINE double name(double a) { using T [[maybe_unused]] = double; return expression; }  \
  OPTIML_INLINE float name##f(float a) { using T [[maybe_unused]] = float; return expression; }  \
  OPTIML_INLINE float name(float a) { return name##f(a); }
OPTIML_FUNCTION(erfinv, (T)optiml_device_special(OPTIML_ERFINV, a))
OPTIML_FUNCTION(erfcinv, (T)optiml_device_special(OPTIML_ERFCINV, a))
OPTIML_FUNCTION(erfcx, (T)optiml_device_special(OPTIML_ERFCX, a))
OPTIML_FUNCTION(normcdf, (T)optiml_device_special(OPTIML_NORMCDF, a))
OPTIML_FUNCTION(normcdfinv, (T)optiml_device_special(OPTIML_NORMCDFINV, a))
OPTIML_FUNCTION(sinpi, (T)optiml_device_special(OPTIML_SINPI, a))
OPTIML_FUNCTION(cospi, (T)optiml_device_special(OPTIML_COSPI, a))
OPTIML_FUNCTION(cyl_bessel_i0, (T)optiml_device_special(OPTIML_I0, a))
OPTIML_FUNCTION(cyl_bessel_i1, (T)optiml_device_special(OPTIML_I1, a))
OPTIML_FUNCTION(rcbrt, (T)(1 / cbrt((double)a)))
#undef OPTIML_FUNCTION
OPTIML_INLINE float optiml_exp10(float a) { return exp10f(a); }
OPTIML_INLINE double optiml_exp10(double a) { return exp10(a); }
#define exp10 optiml_exp10
OPTIML_INLINE double rsqrt(double a) { return 1 / sqrt(a); }
OPTIML_INLINE long double rsqrt(long double a) { return 1 / sqrtl(a); }
#define OPTIML_NORM(T, f)                                                                                     \
  OPTIML_INLINE T rhypot##f(T a, T b) { return (T)(1 / sqrtl((long double)a * a + (long double)b * b)); }     \
  OPTIML_INLINE T norm3d##f(T a, T b, T c) { return (T)sqrtl((long double)a * a + (long double)b * b + (long double)c * c); } \
  OPTIML_INLINE T rnorm3d##f(T a, T b, T c) { return (T)(1 / sqrtl((long double)a * a + (long double)b * b + (long double)c * c)); } \
  OPTIML_INLINE T norm4d##f(T a, T b, T c, T d) {                                                             \
    return (T)sqrtl((long double)a * a + (long double)b * b + (long double)c * c + (long double)d * d); }     \
  OPTIML_INLINE T rnorm4d##f(T a, T b, T c, T d) {                                                            \
    return (T)(1 / sqrtl((long double)a * a + (long double)b * b + (long double)c * c + (long double)d * d)); } \
  OPTIML_INLINE T norm##f(int n, const T* v) {                                                                \
    long double s = 0; for (int i = 0; i < n; i++) s += (long double)v[i] * v[i]; return (T)sqrtl(s); }       \
  OPTIML_INLINE T rnorm##f(int n, const T* v) { return (T)(1 / (long double)norm##f(n, v)); }                 \
  OPTIML_INLINE void sincospi##f(T a, T* s, T* c) { *s = sinpi(a); *c = cospi(a); }
OPTIML_NORM(float, f)
OPTIML_NORM(double, )
#undef OPTIML_NORM
OPTIML_INLINE void sincos(float a, float* s, float* c) { *s = sinf(a); *c = cosf(a); }
OPTIML_INLINE void optiml_sincosf(float a, float* s, float* c) { *s = sinf(a); *c = cosf(a); }
#define sincosf optiml_sincosf
OPTIML_INLINE float __saturatef(float a) { return a > 0 ? (a > 1 ? 1.0f : a) : 0.0f; }
OPTIML_INLINE float saturate(float a) { return __saturatef(a); }
#define __finitef(a) isfinite(a)

// ---- arithmetic with a stated rounding ---------------------------------------------------------------
#define OPTIML_ROUNDED(mode, m)                                                                               \
  OPTIML_INLINE float __fadd_##m(float a, float b) { return optiml_device_round_float(0, mode, a, b, 0); }    \
  OPTIML_INLINE float __fsub_##m(float a, float b) { return optiml_device_round_float(1, mode, a, b, 0); }    \
  OPTIML_INLINE float __fmul_##m(float a, float b) { return optiml_device_round_float(2, mode, a, b, 0); }    \
  OPTIML_INLINE float __fdiv_##m(float a, float b) { return optiml_device_round_float(3, mode, a, b, 0); }    \
  OPTIML_INLINE float __frcp_##m(float a) { return optiml_device_round_float(3, mode, 1, a, 0); }             \
  OPTIML_INLINE float __fmaf_##m(float a, float b, float c) { return optiml_device_round_float(4, mode, a, b, c); } \
  OPTIML_INLINE float __fsqrt_##m(float a) { return optiml_device_round_float(5, mode, a, 0, 0); }            \
  OPTIML_INLINE double __dadd_##m(double a, double b) { return optiml_device_round_double(0, mode, a, b, 0); } \
  OPTIML_INLINE double __dsub_##m(double a, double b) { return optiml_device_round_double(1, mode, a, b, 0); } \
  OPTIML_INLINE double __dmul_##m(double a, double b) { return optiml_device_round_double(2, mode, a, b, 0); } \
  OPTIML_INLINE double __ddiv_##m(double a, double b) { return optiml_device_round_double(3, mode, a, b, 0); } \
  OPTIML_INLINE double __drcp_##m(double a) { return optiml_device_round_double(3, mode, 1, a, 0); }          \
  OPTIML_INLINE double __fma_##m(double a, double b, double c) { return optiml_device_round_double(4, mode, a, b, c); } \
  OPTIML_INLINE double __dsqrt_##m(double a) { return optiml_device_round_double(5, mode, a, 0, 0); }         \
  OPTIML_INLINE float __double2float_##m(double a) { return optiml_device_to_float(a, mode); }                \
  OPTIML_INLINE float __int2float_##m(int a) { return optiml_device_to_float((double)a, mode); }              \
  OPTIML_INLINE float __uint2float_##m(unsigned a) { return optiml_device_to_float((double)a, mode); }         \
  OPTIML_INLINE float __ll2float_##m(long long a) { return optiml_device_to_float(a, mode); }                  \
  OPTIML_INLINE float __ull2float_##m(unsigned long long a) { return optiml_device_to_float(a, mode); }        \
  OPTIML_INLINE double __ll2double_##m(long long a) { return optiml_device_to_double(a, mode); }               \
  OPTIML_INLINE double __ull2double_##m(unsigned long long a) { return optiml_device_to_double(a, mode); }
OPTIML_ROUNDED(1, rz) OPTIML_ROUNDED(2, ru) OPTIML_ROUNDED(3, rd)
#undef OPTIML_ROUNDED
OPTIML_INLINE float __fadd_rn(float a, float b) { return a + b; }
OPTIML_INLINE float __fsub_rn(float a, float b) { return a - b; }
OPTIML_INLINE float __fmul_rn(float a, float b) { return a * b; }
OPTIML_INLINE float __fdiv_rn(float a, float b) { return a / b; }
OPTIML_INLINE float __frcp_rn(float a) { return 1.0f / a; }
OPTIML_INLINE float __fsqrt_rn(float a) { return sqrtf(a); }
OPTIML_INLINE float __frsqrt_rn(float a) { return optiml_device_round_float(6, 0, a, 0, 0); }
OPTIML_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
OPTIML_INLINE float __fmaf_ieee_rn(float a, float b, float c) { return fmaf(a, b, c); }
OPTIML_INLINE double __dadd_rn(double a, double b) { return a + b; }
OPTIML_INLINE double __dsub_rn(double a, double b) { return a - b; }
OPTIML_INLINE double __dmul_rn(double a, double b) { return a * b; }
OPTIML_INLINE double __ddiv_rn(double a, double b) { return a / b; }
OPTIML_INLINE double __drcp_rn(double a) { return 1.0 / a; }
OPTIML_INLINE double __dsqrt_rn(double a) { return sqrt(a); }
OPTIML_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
OPTIML_INLINE float __double2float_rn(double a) { return (float)a; }
OPTIML_INLINE float __int2float_rn(int a) { return (float)a; }
OPTIML_INLINE float __uint2float_rn(unsigned a) { return (float)a; }
OPTIML_INLINE float __ll2float_rn(long long a) { return (float)a; }
OPTIML_INLINE float __ull2float_rn(unsigned long long a) { return (float)a; }
OPTIML_INLINE double __int2double_rn(int a) { return a; }
OPTIML_INLINE double __uint2double_rn(unsigned a) { return a; }
OPTIML_INLINE double __ll2double_rn(long long a) { return (double)a; }
OPTIML_INLINE double __ull2double_rn(unsigned long long a) { return (double)a; }

// Conversions to integers saturate, and a NaN becomes 0 (PTX ISA, cvt).
template <class I> OPTIML_INLINE I optiml_to_integer(double rounded) {
  if (rounded != rounded) return sizeof(I) == 8 ? std::numeric_limits<I>::min() : 0;
  if (rounded <= (double)std::numeric_limits<I>::min()) return std::numeric_limits<I>::min();
  if (rounded >= (double)std::numeric_limits<I>::max()) return std::numeric_limits<I>::max();
  return (I)rounded;
}
#define OPTIML_TO_INTEGER(from, F, to, I)                                                                    \
  OPTIML_INLINE I __##from##2##to##_rn(F a) { return optiml_to_integer<I>(rint((double)a)); }                \
  OPTIML_INLINE I __##from##2##to##_rz(F a) { return optiml_to_integer<I>(trunc((double)a)); }               \
  OPTIML_INLINE I __##from##2##to##_ru(F a) { return optiml_to_integer<I>(ceil((double)a)); }                \
  OPTIML_INLINE I __##from##2##to##_rd(F a) { return optiml_to_integer<I>(floor((double)a)); }
OPTIML_TO_INTEGER(float, float, int, int) OPTIML_TO_INTEGER(float, float, uint, unsigned)
OPTIML_TO_INTEGER(float, float, ll, long long) OPTIML_TO_INTEGER(float, float, ull, unsigned long long)
OPTIML_TO_INTEGER(double, double, int, int) OPTIML_TO_INTEGER(double, double, uint, unsigned)
OPTIML_TO_INTEGER(double, double, ll, long long) OPTIML_TO_INTEGER(double, double, ull, unsigned long long)
#undef OPTIML_TO_INTEGER

#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931e+0
#define CUDART_MAX_NORMAL_F 3.402823466e+38f
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_L2E_F 1.442695041f
#define CUDART_LN2_F 0.693147181f
