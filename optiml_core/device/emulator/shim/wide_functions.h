// wide_functions.h - the functions that a widened build calls instead of CUDA's: one name for every width.
// Written by widening.py's tables; each takes double or long double (integers become double).
#pragma once
typedef long double optiml_wide;

template <class T, bool floating = std::is_floating_point<T>::value> struct optiml_wide_of { typedef double type; };
template <class T> struct optiml_wide_of<T, true> { typedef T type; };
template <> struct optiml_wide_of<float, true> { typedef double type; };
template <class A, class B> using optiml_wider = decltype(typename optiml_wide_of<A>::type() + typename optiml_wide_of<B>::type());

#define OPTIML_WIDE_1(name, small, large)                                             \
  OPTIML_INLINE double optiml_wide_##name##_at(double a) { return small; }            \
  OPTIML_INLINE optiml_wide optiml_wide_##name##_at(optiml_wide a) { return large; }  \
  template <class T> OPTIML_INLINE typename optiml_wide_of<T>::type optiml_wide_##name(T a) { \
    return optiml_wide_##name##_at((typename optiml_wide_of<T>::type)a); }
#define OPTIML_WIDE_B(name) OPTIML_WIDE_1(name, __builtin_##name(a), __builtin_##name##l(a))
OPTIML_WIDE_B(sqrt) OPTIML_WIDE_B(cbrt) OPTIML_WIDE_B(exp) OPTIML_WIDE_B(exp2) OPTIML_WIDE_B(exp10) OPTIML_WIDE_B(expm1)
OPTIML_WIDE_B(log) OPTIML_WIDE_B(log2) OPTIML_WIDE_B(log10) OPTIML_WIDE_B(log1p) OPTIML_WIDE_B(sin) OPTIML_WIDE_B(cos)
OPTIML_WIDE_B(tan) OPTIML_WIDE_B(sinh) OPTIML_WIDE_B(cosh) OPTIML_WIDE_B(tanh) OPTIML_WIDE_B(asin) OPTIML_WIDE_B(acos)
OPTIML_WIDE_B(atan) OPTIML_WIDE_B(asinh) OPTIML_WIDE_B(acosh) OPTIML_WIDE_B(atanh) OPTIML_WIDE_B(floor) OPTIML_WIDE_B(ceil)
OPTIML_WIDE_B(round) OPTIML_WIDE_B(rint) OPTIML_WIDE_B(nearbyint) OPTIML_WIDE_B(trunc) OPTIML_WIDE_B(fabs)
OPTIML_WIDE_B(erf) OPTIML_WIDE_B(erfc) OPTIML_WIDE_B(tgamma) OPTIML_WIDE_B(lgamma) OPTIML_WIDE_B(logb)
OPTIML_WIDE_1(rsqrt, 1 / __builtin_sqrt(a), 1 / __builtin_sqrtl(a))
OPTIML_WIDE_1(rcbrt, 1 / __builtin_cbrt(a), 1 / __builtin_cbrtl(a))
OPTIML_WIDE_1(sinpi, __builtin_sin(a * 3.14159265358979323846), __builtin_sinl(a * 3.14159265358979323846264338327950288L))
OPTIML_WIDE_1(cospi, __builtin_cos(a * 3.14159265358979323846), __builtin_cosl(a * 3.14159265358979323846264338327950288L))
OPTIML_WIDE_1(normcdf, 0.5 * __builtin_erfc(-a * 0.70710678118654752440), 0.5L * __builtin_erfcl(-a * 0.707106781186547524400844362104849039L))
OPTIML_WIDE_1(saturate, a > 0 ? (a > 1 ? 1 : a) : 0, a > 0 ? (a > 1 ? 1 : a) : 0)
OPTIML_WIDE_1(reciprocal, 1 / a, 1 / a)
OPTIML_WIDE_1(int_to, a, a)

#define OPTIML_WIDE_2(name, small, large)                                                              \
  OPTIML_INLINE double optiml_wide_##name##_at(double a, double b) { return small; }                   \
  OPTIML_INLINE optiml_wide optiml_wide_##name##_at(optiml_wide a, optiml_wide b) { return large; }    \
  template <class A, class B> OPTIML_INLINE optiml_wider<A, B> optiml_wide_##name(A a, B b) {          \
    return optiml_wide_##name##_at((optiml_wider<A, B>)a, (optiml_wider<A, B>)b); }
#define OPTIML_WIDE_B2(name) OPTIML_WIDE_2(name, __builtin_##name(a, b), __builtin_##name##l(a, b))
OPTIML_WIDE_B2(atan2) OPTIML_WIDE_B2(pow) OPTIML_WIDE_B2(fmod) OPTIML_WIDE_B2(remainder) OPTIML_WIDE_B2(fmax)
OPTIML_WIDE_B2(fmin) OPTIML_WIDE_B2(fdim) OPTIML_WIDE_B2(hypot) OPTIML_WIDE_B2(copysign)
OPTIML_WIDE_2(divide, a / b, a / b)
template <class A> OPTIML_INLINE typename optiml_wide_of<A>::type optiml_wide_ldexp(A a, int n) {
  return optiml_wide_pow(2.0, n) * (typename optiml_wide_of<A>::type)a; }
template <class A, class B, class C> OPTIML_INLINE optiml_wider<optiml_wider<A, B>, C> optiml_wide_norm3d(A a, B b, C c) {
  return optiml_wide_sqrt((optiml_wider<optiml_wider<A, B>, C>)(a * a + b * b + c * c)); }
template <class A, class B, class C> OPTIML_INLINE optiml_wider<optiml_wider<A, B>, C> optiml_wide_rnorm3d(A a, B b, C c) {
  return 1 / optiml_wide_norm3d(a, b, c); }

// Arithmetic that half, bfloat16 and their pairs have functions for.
OPTIML_INLINE double2 operator+(double2 a, double2 b) { return {a.x + b.x, a.y + b.y}; }
OPTIML_INLINE double2 operator-(double2 a, double2 b) { return {a.x - b.x, a.y - b.y}; }
OPTIML_INLINE double2 operator*(double2 a, double2 b) { return {a.x * b.x, a.y * b.y}; }
template <class A, class B> OPTIML_INLINE auto optiml_wide_add(A a, B b) { return a + b; }
template <class A, class B> OPTIML_INLINE auto optiml_wide_subtract(A a, B b) { return a - b; }
template <class A, class B> OPTIML_INLINE auto optiml_wide_multiply(A a, B b) { return a * b; }
template <class A, class B, class C> OPTIML_INLINE auto optiml_wide_fma(A a, B b, C c) { return a * b + c; }
template <class A> OPTIML_INLINE A optiml_wide_negate(A a) { return -a; }
OPTIML_INLINE double2 optiml_wide_negate(double2 a) { return {-a.x, -a.y}; }
template <class A, class B> OPTIML_INLINE auto optiml_wide_max(A a, B b) -> decltype(a + b) { return a < b ? b : a; }
template <class A, class B> OPTIML_INLINE auto optiml_wide_min(A a, B b) -> decltype(a + b) { return b < a ? b : a; }
template <class A> OPTIML_INLINE A optiml_wide_abs(A a) { return a < 0 ? -a : a; }
template <class A, class B> OPTIML_INLINE bool optiml_wide_greater(A a, B b) { return a > b; }
template <class A, class B> OPTIML_INLINE bool optiml_wide_less(A a, B b) { return a < b; }
template <class A, class B> OPTIML_INLINE bool optiml_wide_greater_equal(A a, B b) { return a >= b; }
template <class A, class B> OPTIML_INLINE bool optiml_wide_less_equal(A a, B b) { return a <= b; }
template <class A, class B> OPTIML_INLINE bool optiml_wide_equal(A a, B b) { return a == b; }
template <class A> OPTIML_INLINE A optiml_wide_same(A a) { return a; }
OPTIML_INLINE double2 optiml_wide_pair(double a, double b) { return {a, b}; }
OPTIML_INLINE double2 optiml_wide_twice(double a) { return {a, a}; }
OPTIML_INLINE double optiml_wide_low(double2 a) { return a.x; }
OPTIML_INLINE double optiml_wide_high(double2 a) { return a.y; }
OPTIML_INLINE double2 atomicAdd(double2* p, double2 v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }
