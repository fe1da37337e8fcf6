// matrix_layout.h - which lane holds which element of a wmma fragment (the m16n8k16 layouts of the
// PTX ISA, in sub-tiles of 8 x 8). Shared by the shim and the runtime.
#pragma once
#include <stdint.h>

enum { OPTIML_MATRIX_A, OPTIML_MATRIX_B, OPTIML_MATRIX_C };
enum : uint8_t { OPTIML_MATRIX_HALF, OPTIML_MATRIX_BFLOAT16, OPTIML_MATRIX_TF32, OPTIML_MATRIX_FLOAT, OPTIML_MATRIX_DOUBLE,
                 OPTIML_MATRIX_INT8, OPTIML_MATRIX_UINT8, OPTIML_MATRIX_INT32 };

struct OptimlMatrixOperation {
  uint8_t m, n, k, a_type, b_type, c_type, d_type, saturate;
  const void *a, *b, *c;
  void* d;
};
struct OptimlPlace { int row, column; };

// Element e of lane `lane`: its row and column in the m x k, k x n or m x n matrix.
static inline __attribute__((always_inline)) OptimlPlace optiml_place(int use, int m, int k, int lane, int e) {
  int group = lane >> 2, pair = (lane & 3) * 2 + (e & 1), tile = e >> 1;
  if (use == OPTIML_MATRIX_A && k == 4) return {group, lane & 3};
  if (use == OPTIML_MATRIX_B && k == 4) return {lane & 3, group};
  if (use == OPTIML_MATRIX_B) return {pair + 8 * (tile % (k / 8)), group + 8 * (tile / (k / 8))};
  return {group + 8 * (tile % (m / 8)), pair + 8 * (tile / (m / 8))};
}
