// half_bits.h - conversions of 16-bit (and 8-bit) floating-point numbers, bit for bit, rounding to
// nearest even (IEEE 754). Shared by the shim and the runtime; no table, no library.
#pragma once
#include <stdint.h>

#define OPTIML_CONST static inline __attribute__((always_inline))

OPTIML_CONST uint32_t optiml_bits_of(float v) { uint32_t b; __builtin_memcpy(&b, &v, 4); return b; }
OPTIML_CONST float optiml_float_of(uint32_t b) { float v; __builtin_memcpy(&v, &b, 4); return v; }
OPTIML_CONST uint64_t optiml_bits_of_double(double v) { uint64_t b; __builtin_memcpy(&b, &v, 8); return b; }

OPTIML_CONST float optiml_half_to_float(uint16_t h) {
  uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
  if (magnitude >= 0x7c00u << 13) return optiml_float_of(sign | magnitude | 0x7f800000u);
  return optiml_float_of(sign | optiml_bits_of(optiml_float_of(magnitude) * 0x1p112f));
}

// Rounds a double to a format of `mantissa` stored bits whose least normal exponent is `least` and
// whose greatest finite value is `greatest`; ties to even; the result is again a double.
OPTIML_CONST double optiml_round_to(double v, int mantissa, int least, double greatest, double infinity) {
  uint64_t b = optiml_bits_of_double(v);
  int exponent = (int)(b >> 52 & 0x7ff) - 1023;
  if (exponent == 1024 || v == 0) return v;
  if (exponent < least) exponent = least;
  int shift = exponent - mantissa;  // the weight of the last kept bit is 2^shift
  uint64_t unit = (uint64_t)(shift + 1023 + 52) << 52;
  double big; __builtin_memcpy(&big, &unit, 8);
  big *= 1.5;
  double sum = v + big;  // adding 1.5 * 2^(shift + 52) drops the bits below 2^shift
  double rounded = sum - big;
  if (rounded > greatest) return infinity;
  if (rounded < -greatest) return -infinity;
  return rounded == 0 ? __builtin_copysign(0.0, v) : rounded;
}

OPTIML_CONST uint16_t optiml_float_to_half(float v) {
  uint32_t b = optiml_bits_of(v), sign = b >> 16 & 0x8000, magnitude = b & 0x7fffffff;
  if (magnitude > 0x7f800000u) return (uint16_t)(0x7fff);
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00);  // rounds to infinity
  if (magnitude < 0x38800000u) {                                   // a subnormal half: the adder rounds it
    float shifted = optiml_float_of(magnitude) + 0.5f;
    return (uint16_t)(sign | (optiml_bits_of(shifted) - 0x3f000000u));
  }
  uint32_t odd = magnitude >> 13 & 1;
  return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfff + odd) >> 13));
}
OPTIML_CONST uint16_t optiml_double_to_half(double v) {
  return optiml_float_to_half((float)optiml_round_to(v, 10, -14, 65504.0, __builtin_inf()));
}

OPTIML_CONST float optiml_bfloat16_to_float(uint16_t h) { return optiml_float_of((uint32_t)h << 16); }
OPTIML_CONST uint16_t optiml_float_to_bfloat16(float v) {
  uint32_t b = optiml_bits_of(v);
  if ((b & 0x7fffffff) > 0x7f800000u) return 0x7fff;
  return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
OPTIML_CONST uint16_t optiml_double_to_bfloat16(double v) {
  return optiml_float_to_bfloat16((float)optiml_round_to(v, 7, -126, 0x1.fep127, __builtin_inf()));
}
