// small_floats.h - half and bfloat16, and their pairs. Every operation rounds its result to the type.
#pragma once
#include "half_bits.h"

#define OPTIML_METHOD inline __attribute__((always_inline))
#define OPTIML_INLINE_MEMBER static inline __attribute__((always_inline))

struct optiml_half_format {
  OPTIML_INLINE_MEMBER float to_float(unsigned short b) { return optiml_half_to_float(b); }
  OPTIML_INLINE_MEMBER unsigned short from_float(float v) { return optiml_float_to_half(v); }
  OPTIML_INLINE_MEMBER unsigned short from_double(double v) { return optiml_double_to_half(v); }
  static constexpr int mantissa = 10, least = -14;
};
struct optiml_bfloat16_format {
  OPTIML_INLINE_MEMBER float to_float(unsigned short b) { return optiml_bfloat16_to_float(b); }
  OPTIML_INLINE_MEMBER unsigned short from_float(float v) { return optiml_float_to_bfloat16(v); }
  OPTIML_INLINE_MEMBER unsigned short from_double(double v) { return optiml_double_to_bfloat16(v); }
  static constexpr int mantissa = 7, least = -126;
};

struct optiml_raw16 { unsigned short x; };
struct alignas(4) optiml_raw32 { unsigned short x, y; };

template <class F> struct optiml_small {
  unsigned short __x;
  optiml_small() = default;
  constexpr optiml_small(optiml_raw16 r) : __x(r.x) {}
  OPTIML_METHOD optiml_small(float v) : __x(F::from_float(v)) {}
  OPTIML_METHOD optiml_small(double v) : __x(F::from_double(v)) {}
  OPTIML_METHOD optiml_small(long double v) : __x(F::from_double((double)v)) {}
  OPTIML_METHOD optiml_small(int v) : __x(F::from_double(v)) {}
  OPTIML_METHOD optiml_small(unsigned v) : __x(F::from_double(v)) {}
  OPTIML_METHOD optiml_small(short v) : __x(F::from_double(v)) {}
  OPTIML_METHOD optiml_small(unsigned short v) : __x(F::from_double(v)) {}
  OPTIML_METHOD optiml_small(long v) : __x(F::from_double((double)v)) {}
  OPTIML_METHOD optiml_small(unsigned long v) : __x(F::from_double((double)v)) {}
  OPTIML_METHOD optiml_small(long long v) : __x(F::from_double((double)v)) {}
  OPTIML_METHOD optiml_small(unsigned long long v) : __x(F::from_double((double)v)) {}
  template <class G, class = std::enable_if_t<!std::is_same_v<F, G>>>
  OPTIML_METHOD explicit optiml_small(optiml_small<G> v) : __x(F::from_float((float)v)) {}
  OPTIML_METHOD operator float() const { return F::to_float(__x); }
  constexpr operator optiml_raw16() const { return {__x}; }
  // Narrowing further takes the way over float, as CUDA's conversion operators do.
  OPTIML_METHOD explicit operator bool() const { return (__x & 0x7fff) != 0; }
#define OPTIML_TO(T) OPTIML_METHOD explicit operator T() const { return (T)F::to_float(__x); }
  OPTIML_TO(double) OPTIML_TO(int) OPTIML_TO(unsigned) OPTIML_TO(short) OPTIML_TO(unsigned short) OPTIML_TO(char)
  OPTIML_TO(signed char) OPTIML_TO(unsigned char) OPTIML_TO(long) OPTIML_TO(unsigned long) OPTIML_TO(long long) OPTIML_TO(unsigned long long)
#undef OPTIML_TO
#define OPTIML_OPERATOR(op)                                                                                           \
  friend OPTIML_METHOD optiml_small operator op(optiml_small a, optiml_small b) { return optiml_small((float)a op (float)b); } \
  OPTIML_METHOD optiml_small& operator op##=(optiml_small b) { return *this = *this op b; }
  OPTIML_OPERATOR(+) OPTIML_OPERATOR(-) OPTIML_OPERATOR(*) OPTIML_OPERATOR(/)
#undef OPTIML_OPERATOR
#define OPTIML_COMPARISON(op) friend OPTIML_METHOD bool operator op(optiml_small a, optiml_small b) { return (float)a op (float)b; }
  OPTIML_COMPARISON(==) OPTIML_COMPARISON(!=) OPTIML_COMPARISON(<) OPTIML_COMPARISON(<=) OPTIML_COMPARISON(>) OPTIML_COMPARISON(>=)
#undef OPTIML_COMPARISON
  OPTIML_METHOD optiml_small operator-() const { return optiml_raw16{(unsigned short)(__x ^ 0x8000)}; }
  OPTIML_METHOD optiml_small operator+() const { return *this; }
  OPTIML_METHOD optiml_small& operator++() { return *this = *this + optiml_small(1.0f); }
  OPTIML_METHOD optiml_small& operator--() { return *this = *this - optiml_small(1.0f); }
  OPTIML_METHOD optiml_small operator++(int) { optiml_small v = *this; ++*this; return v; }
  OPTIML_METHOD optiml_small operator--(int) { optiml_small v = *this; --*this; return v; }
};

template <class F> struct alignas(4) optiml_small2 {
  optiml_small<F> x, y;
  optiml_small2() = default;
  OPTIML_METHOD optiml_small2(optiml_small<F> a, optiml_small<F> b) : x(a), y(b) {}
  OPTIML_METHOD optiml_small2(optiml_raw32 r) : x(optiml_raw16{r.x}), y(optiml_raw16{r.y}) {}
  OPTIML_METHOD operator optiml_raw32() const { return {x.__x, y.__x}; }
#define OPTIML_OPERATOR(op)                                                                                                 \
  friend OPTIML_METHOD optiml_small2 operator op(optiml_small2 a, optiml_small2 b) { return {a.x op b.x, a.y op b.y}; }     \
  OPTIML_METHOD optiml_small2& operator op##=(optiml_small2 b) { return *this = *this op b; }
  OPTIML_OPERATOR(+) OPTIML_OPERATOR(-) OPTIML_OPERATOR(*) OPTIML_OPERATOR(/)
#undef OPTIML_OPERATOR
#define OPTIML_COMPARISON(op) friend OPTIML_METHOD bool operator op(optiml_small2 a, optiml_small2 b) { return a.x op b.x && a.y op b.y; }
  OPTIML_COMPARISON(==) OPTIML_COMPARISON(!=) OPTIML_COMPARISON(<) OPTIML_COMPARISON(<=) OPTIML_COMPARISON(>) OPTIML_COMPARISON(>=)
#undef OPTIML_COMPARISON
  OPTIML_METHOD optiml_small2 operator-() const { return {-x, -y}; }
  OPTIML_METHOD optiml_small2 operator+() const { return *this; }
};

using __half = optiml_small<optiml_half_format>;
using __half2 = optiml_small2<optiml_half_format>;
using half = __half;
using half2 = __half2;
using __nv_bfloat16 = optiml_small<optiml_bfloat16_format>;
using __nv_bfloat162 = optiml_small2<optiml_bfloat16_format>;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
using __half_raw = optiml_raw16;
using __half2_raw = optiml_raw32;
using __nv_bfloat16_raw = optiml_raw16;
using __nv_bfloat162_raw = optiml_raw32;
