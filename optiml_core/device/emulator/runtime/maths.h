// maths.h - functions of the shim that no C library has: stated rounding, the documented errors of
// approximate intrinsics, and a few special functions.
#pragma once
#include <cfenv>
#include <cmath>

#include "state.h"

static const int ROUNDING[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};

template <class T> static __attribute__((noinline, optimize("rounding-math"))) T rounded(int operation, int mode, T a, T b, T c) {
  volatile T x = a, y = b, z = c, r;
  fesetround(ROUNDING[mode & 3]);
  switch (operation) {
    case 0: r = x + y; break;
    case 1: r = x - y; break;
    case 2: r = x * y; break;
    case 3: r = x / y; break;
    case 4: r = std::fma((T)x, (T)y, (T)z); break;
    case 5: r = std::sqrt((T)x); break;
    default: r = (T)(1 / std::sqrt((double)x)); break;
  }
  fesetround(FE_TONEAREST);
  return r;
}
extern "C" float optiml_device_round_float(int operation, int mode, float a, float b, float c) { return rounded(operation, mode, a, b, c); }
extern "C" double optiml_device_round_double(int operation, int mode, double a, double b, double c) { return rounded(operation, mode, a, b, c); }
template <class T> static __attribute__((noinline, optimize("rounding-math"))) T narrowed(long double v, int mode) {
  volatile long double x = v;
  fesetround(ROUNDING[mode & 3]);
  volatile T r = (T)x;
  fesetround(FE_TONEAREST);
  return r;
}
extern "C" float optiml_device_to_float(long double v, int mode) { return narrowed<float>(v, mode); }
extern "C" double optiml_device_to_double(long double v, int mode) { return narrowed<double>(v, mode); }

// ---- approximate intrinsics -------------------------------------------------------------------------------

// A number in [-1, 1] that depends on nothing but the arguments.
static double error_of(int function, float a, float b) {
  uint32_t x, y;
  memcpy(&x, &a, 4);
  memcpy(&y, &b, 4);
  uint64_t h = ((uint64_t)x << 32 | y) + 0x9E3779B97F4A7C15ull * (uint64_t)(function + 1);
  h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9ull;
  h = (h ^ h >> 27) * 0x94D049BB133111EBull;
  return (double)(int64_t)(h ^ h >> 31) * 0x1p-63;
}
static double unit_in_the_last_place(double v) {
  int exponent = std::max(std::ilogb((float)v), -126);
  return std::ldexp(1.0, exponent - 23);
}

enum Fast { FAST_EXP, FAST_EXP10, FAST_LOG, FAST_LOG2, FAST_LOG10, FAST_SIN, FAST_COS, FAST_TAN, FAST_POW, FAST_DIVIDE, FAST_RSQRT, FAST_TANH };

// Errors: CUDA C++ Programming Guide, "Intrinsic Functions", tables of maximum ulp and absolute errors.
extern "C" float optiml_device_fast(int function, float a, float b) {
  double exact, ulps = 0, absolute = 0, x = a, y = b;
  bool near_one = x >= 0.5 && x <= 2;
  // Outside of [-pi, pi] the documentation says only "larger"; the reduction loses with the magnitude.
  double turns = std::max(1.0, std::fabs(x) / 3.141592653589793);
  switch (function) {
    case FAST_EXP: exact = std::exp(x); ulps = 2 + std::floor(std::fabs(1.173 * x)); break;
    case FAST_EXP10: exact = std::pow(10.0, x); ulps = 2 + std::floor(std::fabs(2.97 * x)); break;
    case FAST_LOG: exact = std::log(x); if (near_one) absolute = 0x1p-21 * 0.7526; else ulps = 3; break;      // 2^-21.41
    case FAST_LOG2: exact = std::log2(x); if (near_one) absolute = 0x1p-22; else ulps = 2; break;
    case FAST_LOG10: exact = std::log10(x); if (near_one) absolute = 0x1p-24; else ulps = 3; break;
    case FAST_SIN: exact = std::sin(x); absolute = 0x1p-21 * 0.7526 * turns; break;                         // 2^-21.41
    case FAST_COS: exact = std::cos(x); absolute = 0x1p-21 * 0.8766 * turns; break;                         // 2^-21.19
    case FAST_TAN: {
      float s = optiml_device_fast(FAST_SIN, a, 0), c = optiml_device_fast(FAST_COS, a, 0);
      return optiml_device_fast(FAST_DIVIDE, s, c);
    }
    case FAST_POW: {  // exp2f(y * __log2f(x))
      float product = b * optiml_device_fast(FAST_LOG2, a, 0);
      exact = std::exp2((double)product); ulps = 2;
      break;
    }
    case FAST_DIVIDE:
      if (std::fabs(y) > 0x1p126 && std::isfinite(y)) return std::isinf(x) || std::isnan(x) ? NAN : std::copysign(0.0f, a * b);
      exact = x / y; ulps = 2;
      break;
    case FAST_RSQRT: exact = 1 / std::sqrt(x); ulps = 2; break;
    default: exact = std::tanh(x); ulps = 0; absolute = std::fabs(exact) * 0x1p-11 * 1.0091; break;           // 2^-10.987, relative
  }
  // What the hardware gets right: infinities, zeros, and the arguments that its tables start from.
  if (!std::isfinite((float)exact) || exact == 0 || exact == 1) return (float)exact;
  double error = (ulps ? std::round(error_of(function, a, b) * ulps) * unit_in_the_last_place(exact) : error_of(function, a, b) * absolute);
  return (float)((double)(float)exact + error);
}

// ---- special functions ------------------------------------------------------------------------------------

// Newton's method on erf, from the approximation of Winitzki (2008).
static double inverse_erf(double y) {
  if (y <= -1 || y >= 1) return y == 1 ? INFINITY : y == -1 ? -INFINITY : NAN;
  double l = std::log1p(-y * y), t = 2 / (M_PI * 0.147) + l / 2;
  double x = std::copysign(std::sqrt(std::sqrt(t * t - l / 0.147) - t), y);
  for (int i = 0; i < 4; i++) {
    double tail = y > 0 ? std::erfc(x) - (1 - y) : -(std::erfc(-x) - (1 + y));
    x += tail * std::sqrt(M_PI) / 2 * std::exp(x * x);
  }
  return x;
}
static double inverse_erfc(double y) {
  if (y > 0.1 && y < 2) return inverse_erf(1 - y);
  if (!(y > 0)) return y == 0 ? INFINITY : NAN;
  if (y >= 2) return y == 2 ? -INFINITY : NAN;
  double x = std::sqrt(-std::log(y * std::sqrt(M_PI) * std::sqrt(std::max(1.0, -std::log(y)))));
  for (int i = 0; i < 8; i++) x += (std::erfc(x) - y) * std::sqrt(M_PI) / 2 * std::exp(x * x);
  return x;
}
static double scaled_erfc(double x) {
  if (x < 25) return std::exp(x * x) * std::erfc(x);
  double s = 1 / (2 * x * x);  // asymptotic series
  return (1 - s + 3 * s * s - 15 * s * s * s) / (x * std::sqrt(M_PI));
}
static double bessel_i(int order, double x) {
  double h = x * x / 4, term = order ? x / 2 : 1, sum = term;
  for (int k = 1; k < 1000 && std::fabs(term) > std::fabs(sum) * 1e-18; k++) { term *= h / ((double)k * (k + order)); sum += term; }
  return sum;
}
static double of_pi(bool sine, double x) {
  if (!std::isfinite(x)) return NAN;
  double r = std::remainder(x, 2.0);
  double twice = 2 * r;
  if (twice == std::rint(twice)) {  // a multiple of a half: exact
    int k = ((int)twice + 4) & 3;
    static const double sines[4] = {0, 1, 0, -1}, cosines[4] = {1, 0, -1, 0};
    return sine ? (sines[k] == 0 ? std::copysign(0.0, x) : sines[k]) : cosines[k];
  }
  return (double)(sine ? std::sin(M_PIl * (long double)r) : std::cos(M_PIl * (long double)r));
}
extern "C" double optiml_device_special(int function, double a) {
  switch (function) {
    case 0: return inverse_erf(a);
    case 1: return inverse_erfc(a);
    case 2: return scaled_erfc(a);
    case 3: return 0.5 * std::erfc(-a * M_SQRT1_2);
    case 4: return -M_SQRT2 * inverse_erfc(2 * a);
    case 5: return of_pi(true, a);
    case 6: return of_pi(false, a);
    case 7: return bessel_i(0, a);
    default: return bessel_i(1, a);
  }
}
