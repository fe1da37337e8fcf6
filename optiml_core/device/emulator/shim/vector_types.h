// vector_types.h - float4 and its relatives, with CUDA's alignments.
#pragma once
#define OPTIML_VECTOR(T, N, A2, A4)                                                         \
  struct N##1 { T x; };                                                                     \
  struct alignas(A2) N##2 { T x, y; };                                                      \
  struct N##3 { T x, y, z; };                                                               \
  struct alignas(A4) N##4 { T x, y, z, w; };                                                \
  OPTIML_INLINE constexpr N##1 make_##N##1(T x) { return {x}; }                             \
  OPTIML_INLINE constexpr N##2 make_##N##2(T x, T y) { return {x, y}; }                     \
  OPTIML_INLINE constexpr N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }             \
  OPTIML_INLINE constexpr N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
OPTIML_VECTOR(signed char, char, 2, 4)
OPTIML_VECTOR(unsigned char, uchar, 2, 4)
OPTIML_VECTOR(short, short, 4, 8)
OPTIML_VECTOR(unsigned short, ushort, 4, 8)
OPTIML_VECTOR(int, int, 8, 16)
OPTIML_VECTOR(unsigned, uint, 8, 16)
OPTIML_VECTOR(long, long, 16, 16)
OPTIML_VECTOR(unsigned long, ulong, 16, 16)
OPTIML_VECTOR(long long, longlong, 16, 16)
OPTIML_VECTOR(unsigned long long, ulonglong, 16, 16)
OPTIML_VECTOR(float, float, 8, 16)
OPTIML_VECTOR(double, double, 16, 16)
#undef OPTIML_VECTOR
// CUDA 13's names that say the alignment.
#define OPTIML_ALIGNED_VECTOR(T, N)                                                              \
  struct alignas(16) N##4_16a { T x, y, z, w; };                                                 \
  struct alignas(32) N##4_32a { T x, y, z, w; };                                                 \
  OPTIML_INLINE constexpr N##4_16a make_##N##4_16a(T x, T y, T z, T w) { return {x, y, z, w}; }  \
  OPTIML_INLINE constexpr N##4_32a make_##N##4_32a(T x, T y, T z, T w) { return {x, y, z, w}; }
OPTIML_ALIGNED_VECTOR(double, double)
OPTIML_ALIGNED_VECTOR(long, long)
OPTIML_ALIGNED_VECTOR(unsigned long, ulong)
OPTIML_ALIGNED_VECTOR(long long, longlong)
OPTIML_ALIGNED_VECTOR(unsigned long long, ulonglong)
#undef OPTIML_ALIGNED_VECTOR
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
