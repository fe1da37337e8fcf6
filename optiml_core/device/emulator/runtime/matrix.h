// matrix.h - the warp-wide matrix multiply-accumulate behind wmma, as plain arithmetic. Products
// are exact; a sum over k is rounded once to the accumulator's type.
#pragma once
#include "../shim/matrix_layout.h"
#include "builtins.h"

static double fragment_value(const void* x, uint8_t type, int e) {
  switch (type) {
    case OPTIML_MATRIX_HALF: return optiml_half_to_float(((const uint16_t*)x)[e]);
    case OPTIML_MATRIX_BFLOAT16: return optiml_bfloat16_to_float(((const uint16_t*)x)[e]);
    case OPTIML_MATRIX_TF32: return optiml_float_of(optiml_bits_of(((const float*)x)[e]) & 0xffffe000u);
    case OPTIML_MATRIX_FLOAT: return ((const float*)x)[e];
    case OPTIML_MATRIX_DOUBLE: return ((const double*)x)[e];
    case OPTIML_MATRIX_INT8: return ((const int8_t*)x)[e];
    case OPTIML_MATRIX_UINT8: return ((const uint8_t*)x)[e];
    default: return ((const int32_t*)x)[e];
  }
}
static void set_fragment_value(void* x, uint8_t type, int e, double v, bool saturate) {
  switch (type) {
    case OPTIML_MATRIX_HALF: ((uint16_t*)x)[e] = optiml_double_to_half(v); break;
    case OPTIML_MATRIX_FLOAT: ((float*)x)[e] = (float)v; break;
    case OPTIML_MATRIX_DOUBLE: ((double*)x)[e] = v; break;
    default:  // sums of int8 products are exact in a double; int32 wraps unless it saturates
      if (saturate) v = std::min(std::max(v, -2147483648.0), 2147483647.0);
      ((int32_t*)x)[e] = (int32_t)(int64_t)v;
  }
}

// Every lane's value points to its OptimlMatrixOperation; all lanes of the warp take part.
static void matrix_multiply(Warp& w, uint32_t mask) {
  auto* any = (OptimlMatrixOperation*)w.lanes[__builtin_ctz(mask)].value.low;
  int m = any->m, n = any->n, k = any->k;
  static double a[32 * 16], b[32 * 16], c[32 * 32];
  each_lane(w, mask, [&](Lane& l) {
    auto* o = (OptimlMatrixOperation*)l.value.low;
    for (int e = 0; e < m * k / 32; e++) {
      OptimlPlace p = optiml_place(OPTIML_MATRIX_A, m, k, l.number, e);
      a[p.row * k + p.column] = fragment_value(o->a, o->a_type, e);
    }
    for (int e = 0; e < k * n / 32; e++) {
      OptimlPlace p = optiml_place(OPTIML_MATRIX_B, m, k, l.number, e);
      b[p.row * n + p.column] = fragment_value(o->b, o->b_type, e);
    }
    for (int e = 0; e < m * n / 32; e++) {
      OptimlPlace p = optiml_place(OPTIML_MATRIX_C, m, k, l.number, e);
      c[p.row * n + p.column] = fragment_value(o->c, o->c_type, e);
    }
  });
  for (int i = 0; i < m; i++)
    for (int p = 0; p < k; p++)
      for (int j = 0; j < n; j++) c[i * n + j] += a[i * k + p] * b[p * n + j];
  each_lane(w, mask, [&](Lane& l) {
    auto* o = (OptimlMatrixOperation*)l.value.low;
    for (int e = 0; e < m * n / 32; e++) {
      OptimlPlace p = optiml_place(OPTIML_MATRIX_C, m, k, l.number, e);
      set_fragment_value(o->d, o->d_type, e, c[p.row * n + p.column], o->saturate);
    }
  });
}

// ---- atomics on 16-bit floating-point numbers -----------------------------------------------------------
static uint16_t add_halves(uint16_t a, uint16_t b) { return optiml_float_to_half(optiml_half_to_float(a) + optiml_half_to_float(b)); }
static uint16_t add_bfloats(uint16_t a, uint16_t b) {
  return optiml_float_to_bfloat16(optiml_bfloat16_to_float(a) + optiml_bfloat16_to_float(b));
}
#define SMALL_ATOMIC(name, add)                                                     \
  extern "C" uint16_t optiml_device_atomicAdd_##name(uint16_t* p, uint16_t v) {     \
    access((uintptr_t)p, 2, OPTIML_ATOMIC, CALLER);                                 \
    uint16_t o = *p;                                                                \
    *p = add(o, v);                                                                 \
    return o;                                                                       \
  }                                                                                 \
  extern "C" uint32_t optiml_device_atomicAdd_##name##x2(uint32_t* p, uint32_t v) { \
    access((uintptr_t)p, 4, OPTIML_ATOMIC, CALLER);                                 \
    uint32_t o = *p;                                                                \
    *p = add((uint16_t)o, (uint16_t)v) | (uint32_t)add((uint16_t)(o >> 16), (uint16_t)(v >> 16)) << 16; \
    return o;                                                                       \
  }
SMALL_ATOMIC(half, add_halves)
SMALL_ATOMIC(bfloat16, add_bfloats)
#undef SMALL_ATOMIC
