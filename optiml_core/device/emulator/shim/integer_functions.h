// integer_functions.h - integer intrinsics, packed byte and half-word operations, bit casts.
#pragma once
OPTIML_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
OPTIML_INLINE int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
OPTIML_INLINE int __clz(int v) { return v ? __builtin_clz(v) : 32; }
OPTIML_INLINE int __clzll(long long v) { return v ? __builtin_clzll(v) : 64; }
OPTIML_INLINE int __ffs(int v) { return __builtin_ffs(v); }
OPTIML_INLINE int __ffsll(long long v) { return __builtin_ffsll(v); }
OPTIML_INLINE unsigned __brev(unsigned v) {
  v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
  v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
  v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(v);
}
OPTIML_INLINE unsigned long long __brevll(unsigned long long v) {
  return (unsigned long long)__brev((unsigned)v) << 32 | __brev((unsigned)(v >> 32));
}
OPTIML_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  unsigned long long both = (unsigned long long)y << 32 | x; unsigned r = 0;
  for (int i = 0; i < 4; i++) {
    unsigned k = s >> 4 * i, byte = both >> 8 * (k & 7) & 0xff;
    r |= (k & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * i;
  }
  return r;
}
OPTIML_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
OPTIML_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
OPTIML_INLINE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
OPTIML_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
OPTIML_INLINE int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
OPTIML_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
OPTIML_INLINE unsigned __sad(int a, int b, unsigned c) { return c + (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a); }
OPTIML_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
OPTIML_INLINE int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
OPTIML_INLINE int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
OPTIML_INLINE unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
OPTIML_INLINE unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
OPTIML_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (n & 31)) >> 32);
}
OPTIML_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (n & 31));
}
OPTIML_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned n) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (n < 32 ? n : 32)) >> 32);
}
OPTIML_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (n < 32 ? n : 32));
}
OPTIML_INLINE unsigned __fns(unsigned mask, unsigned base, int offset) {
  int found = 0;
  if (offset == 0) return mask >> base & 1 ? base : ~0u;
  for (int i = (int)base; i >= 0 && i < 32; i += offset > 0 ? 1 : -1)
    if ((mask >> i & 1) && ++found == (offset > 0 ? offset : -offset)) return (unsigned)i;
  return ~0u;
}
OPTIML_INLINE int optiml_byte(int v, int i) { return (signed char)(v >> 8 * i); }
OPTIML_INLINE unsigned optiml_byte(unsigned v, int i) { return v >> 8 * i & 0xff; }
OPTIML_INLINE int optiml_half_word(int v, int i) { return (short)(v >> 16 * i); }
OPTIML_INLINE unsigned optiml_half_word(unsigned v, int i) { return v >> 16 * i & 0xffff; }
template <class A, class B, class C> OPTIML_INLINE C optiml_dot4(A a, B b, C c) {
  unsigned sum = (unsigned)c;
  for (int i = 0; i < 4; i++) sum += (unsigned)optiml_byte(a, i) * (unsigned)optiml_byte(b, i);
  return (C)sum;
}
template <class A, class B, class C> OPTIML_INLINE C optiml_dot2(A a, B b, C c, int first) {
  return (C)((unsigned)c + (unsigned)optiml_half_word(a, 0) * (unsigned)optiml_byte(b, first) +
             (unsigned)optiml_half_word(a, 1) * (unsigned)optiml_byte(b, first + 1));
}
OPTIML_INLINE int __dp4a(int a, int b, int c) { return optiml_dot4(a, b, c); }
OPTIML_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) { return optiml_dot4(a, b, c); }
OPTIML_INLINE int __dp4a(char4 a, char4 b, int c) { return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
OPTIML_INLINE unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) { return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
OPTIML_INLINE int __dp2a_lo(int a, int b, int c) { return optiml_dot2(a, b, c, 0); }
OPTIML_INLINE int __dp2a_hi(int a, int b, int c) { return optiml_dot2(a, b, c, 2); }
OPTIML_INLINE unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) { return optiml_dot2(a, b, c, 0); }
OPTIML_INLINE unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) { return optiml_dot2(a, b, c, 2); }

// Four bytes or two half-words in one word, each lane on its own.
#define OPTIML_PACKED(name, T, bits, expression)                                              \
  OPTIML_INLINE unsigned name(unsigned x, unsigned y) {                                       \
    unsigned r = 0;                                                                           \
    for (int i = 0; i < 32; i += bits) {                                                      \
      int a = (T)(x >> i), b = (T)(y >> i);                                                   \
      r |= ((unsigned)(expression) & ((1u << bits) - 1)) << i;                                \
    }                                                                                         \
    return r;                                                                                 \
  }
#define OPTIML_PACKED_PAIR(stem, sfx, S, U, e) OPTIML_PACKED(__v##stem##sfx##2, S##short, 16, e) OPTIML_PACKED(__v##stem##sfx##4, S##U, 8, e)
typedef short optiml_signedshort; typedef signed char optiml_signedchar;
typedef unsigned short optiml_unsignedshort; typedef unsigned char optiml_unsignedchar;
#define OPTIML_SIGNED(stem, sfx, e) OPTIML_PACKED_PAIR(stem, sfx, optiml_signed, char, e)
#define OPTIML_UNSIGNED(stem, sfx, e) OPTIML_PACKED_PAIR(stem, sfx, optiml_unsigned, char, e)
OPTIML_UNSIGNED(add, , a + b) OPTIML_UNSIGNED(sub, , a - b)
OPTIML_SIGNED(max, s, a > b ? a : b) OPTIML_SIGNED(min, s, a < b ? a : b)
OPTIML_UNSIGNED(max, u, a > b ? a : b) OPTIML_UNSIGNED(min, u, a < b ? a : b)
OPTIML_SIGNED(absdiff, s, a > b ? a - b : b - a) OPTIML_UNSIGNED(absdiff, u, a > b ? a - b : b - a)
OPTIML_SIGNED(avg, s, (a + b + (a + b >= 0)) >> 1) OPTIML_UNSIGNED(avg, u, (a + b + 1) >> 1) OPTIML_UNSIGNED(hadd, u, (a + b) >> 1)
OPTIML_UNSIGNED(cmpeq, , a == b ? ~0 : 0) OPTIML_UNSIGNED(cmpne, , a != b ? ~0 : 0)
OPTIML_SIGNED(cmpgt, s, a > b ? ~0 : 0) OPTIML_SIGNED(cmpge, s, a >= b ? ~0 : 0) OPTIML_SIGNED(cmplt, s, a < b ? ~0 : 0) OPTIML_SIGNED(cmple, s, a <= b ? ~0 : 0)
OPTIML_UNSIGNED(cmpgt, u, a > b ? ~0 : 0) OPTIML_UNSIGNED(cmpge, u, a >= b ? ~0 : 0) OPTIML_UNSIGNED(cmplt, u, a < b ? ~0 : 0) OPTIML_UNSIGNED(cmple, u, a <= b ? ~0 : 0)
OPTIML_UNSIGNED(seteq, , a == b) OPTIML_UNSIGNED(setne, , a != b) OPTIML_SIGNED(setgt, s, a > b) OPTIML_UNSIGNED(setgt, u, a > b)
OPTIML_PACKED(__vaddss4, signed char, 8, a + b > 127 ? 127 : a + b < -128 ? -128 : a + b)
OPTIML_PACKED(__vaddus4, unsigned char, 8, a + b > 255 ? 255 : a + b)
OPTIML_PACKED(__vaddss2, short, 16, a + b > 32767 ? 32767 : a + b < -32768 ? -32768 : a + b)
OPTIML_PACKED(__vaddus2, unsigned short, 16, a + b > 65535 ? 65535 : a + b)
OPTIML_PACKED(__vsubss4, signed char, 8, a - b > 127 ? 127 : a - b < -128 ? -128 : a - b)
OPTIML_PACKED(__vsubus4, unsigned char, 8, a - b < 0 ? 0 : a - b)
OPTIML_PACKED(__vsubss2, short, 16, a - b > 32767 ? 32767 : a - b < -32768 ? -32768 : a - b)
OPTIML_PACKED(__vsubus2, unsigned short, 16, a - b < 0 ? 0 : a - b)
OPTIML_INLINE unsigned __vneg4(unsigned v) { return __vsub4(0, v); }
OPTIML_INLINE unsigned __vneg2(unsigned v) { return __vsub2(0, v); }
OPTIML_INLINE unsigned __vabs4(unsigned v) { return __vmaxs4(v, __vneg4(v)) & 0xffffffffu; }
OPTIML_INLINE unsigned __vabs2(unsigned v) { return __vmaxs2(v, __vneg2(v)); }
OPTIML_INLINE unsigned __vsadu4(unsigned a, unsigned b) { unsigned d = __vabsdiffu4(a, b); return (d & 255) + (d >> 8 & 255) + (d >> 16 & 255) + (d >> 24); }
OPTIML_INLINE unsigned __vsads4(unsigned a, unsigned b) { unsigned d = __vabsdiffs4(a, b); return (d & 255) + (d >> 8 & 255) + (d >> 16 & 255) + (d >> 24); }
OPTIML_INLINE unsigned __vsadu2(unsigned a, unsigned b) { unsigned d = __vabsdiffu2(a, b); return (d & 65535) + (d >> 16); }
#undef OPTIML_UNSIGNED
#undef OPTIML_SIGNED
#undef OPTIML_PACKED_PAIR
#undef OPTIML_PACKED
OPTIML_INLINE int __viaddmax_s32(int a, int b, int c) { int s = (int)((unsigned)a + (unsigned)b); return s > c ? s : c; }
OPTIML_INLINE int __viaddmin_s32(int a, int b, int c) { int s = (int)((unsigned)a + (unsigned)b); return s < c ? s : c; }
OPTIML_INLINE int __viaddmax_s32_relu(int a, int b, int c) { int m = __viaddmax_s32(a, b, c); return m > 0 ? m : 0; }
OPTIML_INLINE int __vimax3_s32(int a, int b, int c) { int m = a > b ? a : b; return m > c ? m : c; }
OPTIML_INLINE int __vimin3_s32(int a, int b, int c) { int m = a < b ? a : b; return m < c ? m : c; }
OPTIML_INLINE int __vimax_s32_relu(int a, int b) { return __vimax3_s32(a, b, 0); }

template <class To, class From> OPTIML_INLINE To optiml_cast_bits(From v) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  To r; __builtin_memcpy(&r, &v, sizeof r); return r;
}
OPTIML_INLINE int __float_as_int(float v) { return optiml_cast_bits<int>(v); }
OPTIML_INLINE unsigned __float_as_uint(float v) { return optiml_cast_bits<unsigned>(v); }
OPTIML_INLINE float __int_as_float(int v) { return optiml_cast_bits<float>(v); }
OPTIML_INLINE float __uint_as_float(unsigned v) { return optiml_cast_bits<float>(v); }
OPTIML_INLINE long long __double_as_longlong(double v) { return optiml_cast_bits<long long>(v); }
OPTIML_INLINE double __longlong_as_double(long long v) { return optiml_cast_bits<double>(v); }
OPTIML_INLINE int __double2hiint(double v) { return (int)(optiml_cast_bits<long long>(v) >> 32); }
OPTIML_INLINE int __double2loint(double v) { return (int)optiml_cast_bits<long long>(v); }
OPTIML_INLINE double __hiloint2double(int high, int low) { return optiml_cast_bits<double>((long long)high << 32 | (unsigned)low); }
