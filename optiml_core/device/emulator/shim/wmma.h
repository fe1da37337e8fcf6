// wmma.h - nvcuda::wmma. A fragment's elements lie on the lanes as matrix_layout.h says.
#pragma once
#include "matrix_layout.h"
namespace nvcuda {
namespace wmma {
struct matrix_a { static constexpr int use = OPTIML_MATRIX_A; };
struct matrix_b { static constexpr int use = OPTIML_MATRIX_B; };
struct accumulator { static constexpr int use = OPTIML_MATRIX_C; };
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32 {}; struct optiml_wide_tf32 {}; }

template <class T> struct optiml_stored { using type = T; };
template <> struct optiml_stored<precision::tf32> { using type = float; };
template <> struct optiml_stored<precision::optiml_wide_tf32> { using type = double; };
template <class T> constexpr uint8_t optiml_matrix_type() {
  if constexpr (std::is_same_v<T, __half>) return OPTIML_MATRIX_HALF;
  else if constexpr (std::is_same_v<T, __nv_bfloat16>) return OPTIML_MATRIX_BFLOAT16;
  else if constexpr (std::is_same_v<T, precision::tf32>) return OPTIML_MATRIX_TF32;
  else if constexpr (std::is_same_v<T, float>) return OPTIML_MATRIX_FLOAT;
  else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, precision::optiml_wide_tf32>) return OPTIML_MATRIX_DOUBLE;
  else if constexpr (std::is_same_v<T, signed char>) return OPTIML_MATRIX_INT8;
  else if constexpr (std::is_same_v<T, unsigned char>) return OPTIML_MATRIX_UINT8;
  else { static_assert(std::is_same_v<T, int>, "the emulator has no matrix instruction for this type"); return OPTIML_MATRIX_INT32; }
}

template <class Use, int M, int N, int K, class T, class Layout = void> class fragment {
 public:
  using element_type = typename optiml_stored<T>::type;
  using storage_element_type = element_type;
  static constexpr int optiml_rows = Use::use == OPTIML_MATRIX_B ? K : M, optiml_columns = Use::use == OPTIML_MATRIX_A ? K : N;
  static constexpr int num_elements = optiml_rows * optiml_columns / 32, num_storage_elements = num_elements;
  element_type x[num_elements];
};
template <class Use, int M, int N, int K, class T, class L, class V>
OPTIML_METHOD void fill_fragment(fragment<Use, M, N, K, T, L>& f, const V& v) {
  using E = typename fragment<Use, M, N, K, T, L>::element_type;
  for (int i = 0; i < f.num_elements; i++) f.x[i] = (E)v;
}

template <class T> struct alignas(2 * sizeof(T)) optiml_pair { T a, b; };
// Two neighbours in memory go as one access where they are aligned for it.
template <class Use, int M, int N, int K, class T, class L, class S>
OPTIML_METHOD void optiml_load(fragment<Use, M, N, K, T, L>& f, const S* p, unsigned ld, bool by_rows) {
  using E = typename fragment<Use, M, N, K, T, L>::element_type;
  int lane = optiml_device_lane();
  for (int i = 0; i < f.num_elements; i++) {
    OptimlPlace at = optiml_place(Use::use, M, K, lane, i);
    const S* q = p + (by_rows ? (size_t)at.row * ld + at.column : (size_t)at.column * ld + at.row);
    if (i + 1 < f.num_elements && i % 2 == 0) {
      OptimlPlace next = optiml_place(Use::use, M, K, lane, i + 1);
      const S* r = p + (by_rows ? (size_t)next.row * ld + next.column : (size_t)next.column * ld + next.row);
      if (r == q + 1 && (size_t)q % (2 * sizeof(S)) == 0) {
        optiml_pair<S> both = *(const optiml_pair<S>*)q;
        f.x[i] = (E)both.a; f.x[i + 1] = (E)both.b;
        i++;
        continue;
      }
    }
    f.x[i] = (E)*q;
  }
}
template <class Use, int M, int N, int K, class T, class S>
OPTIML_METHOD void load_matrix_sync(fragment<Use, M, N, K, T, row_major>& f, const S* p, unsigned ld) { __syncwarp(); optiml_load(f, p, ld, true); }
template <class Use, int M, int N, int K, class T, class S>
OPTIML_METHOD void load_matrix_sync(fragment<Use, M, N, K, T, col_major>& f, const S* p, unsigned ld) { __syncwarp(); optiml_load(f, p, ld, false); }
template <int M, int N, int K, class T, class S>
OPTIML_METHOD void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const S* p, unsigned ld, layout_t layout) {
  __syncwarp();
  optiml_load(f, p, ld, layout == mem_row_major);
}
template <int M, int N, int K, class T, class S>
OPTIML_METHOD void store_matrix_sync(S* p, const fragment<accumulator, M, N, K, T>& f, unsigned ld, layout_t layout) {
  int lane = optiml_device_lane();
  bool by_rows = layout == mem_row_major;
  __syncwarp();
  for (int i = 0; i < f.num_elements; i += 2) {
    OptimlPlace at = optiml_place(OPTIML_MATRIX_C, M, K, lane, i);
    S* q = p + (by_rows ? (size_t)at.row * ld + at.column : (size_t)at.column * ld + at.row);
    if (by_rows && (size_t)q % (2 * sizeof(S)) == 0) {
      *(optiml_pair<S>*)q = {(S)f.x[i], (S)f.x[i + 1]};
    } else {
      *q = (S)f.x[i];
      *(by_rows ? q + 1 : q + ld) = (S)f.x[i + 1];
    }
  }
}
template <int M, int N, int K, class TD, class TA, class LA, class TB, class LB, class TC>
OPTIML_METHOD void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
                            const fragment<matrix_b, M, N, K, TB, LB>& b, const fragment<accumulator, M, N, K, TC>& c, bool saturate = false) {
  OptimlMatrixOperation o = {M, N, K, optiml_matrix_type<TA>(), optiml_matrix_type<TB>(), optiml_matrix_type<TC>(), optiml_matrix_type<TD>(),
                             saturate, a.x, b.x, c.x, d.x};
  optiml_device_collective(OPTIML_MATRIX, ~0u, optiml_pack(&o), 0, 32);
}
OPTIML_INLINE float __float_to_tf32(float v) {  // nearest, ties away from zero
  unsigned b = optiml_cast_bits<unsigned>(v);
  if ((b & 0x7f800000u) == 0x7f800000u) return v;
  return optiml_cast_bits<float>((b + 0x1000u) & 0xffffe000u);
}
}

}
using nvcuda::wmma::__float_to_tf32;
