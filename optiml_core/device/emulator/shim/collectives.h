// collectives.h - warp shuffles, votes, matches and reductions.
#pragma once
struct optiml_bits { uint64_t low, high; };
extern "C" optiml_bits optiml_device_collective(int kind, unsigned mask, optiml_bits value, int argument, int width);
enum { OPTIML_SYNC, OPTIML_SHUFFLE, OPTIML_SHUFFLE_UP, OPTIML_SHUFFLE_DOWN, OPTIML_SHUFFLE_XOR, OPTIML_ANY, OPTIML_ALL,
       OPTIML_BALLOT, OPTIML_ACTIVE_MASK, OPTIML_REDUCE_ADD, OPTIML_REDUCE_MIN, OPTIML_REDUCE_MAX, OPTIML_REDUCE_AND,
       OPTIML_REDUCE_OR, OPTIML_REDUCE_XOR, OPTIML_REDUCE_UMIN, OPTIML_REDUCE_UMAX, OPTIML_MATCH_ANY, OPTIML_MATCH_ALL, OPTIML_MATRIX };
template <class T> OPTIML_INLINE optiml_bits optiml_pack(T v) {
  static_assert(sizeof(T) <= 16, "a warp collective moves at most 16 bytes");
  optiml_bits b{0, 0}; __builtin_memcpy(&b, &v, sizeof v); return b;
}
template <class T> OPTIML_INLINE T optiml_unpack(optiml_bits b) { T v; __builtin_memcpy(&v, &b, sizeof v); return v; }
#define OPTIML_SHUFFLE_FUNCTION(name, kind, A)                                                      \
  template <class T> OPTIML_INLINE T name(unsigned mask, T value, A argument, int width = 32) {     \
    return optiml_unpack<T>(optiml_device_collective(kind, mask, optiml_pack(value), (int)argument, width)); }
OPTIML_SHUFFLE_FUNCTION(__shfl_sync, OPTIML_SHUFFLE, int)
OPTIML_SHUFFLE_FUNCTION(__shfl_up_sync, OPTIML_SHUFFLE_UP, unsigned)
OPTIML_SHUFFLE_FUNCTION(__shfl_down_sync, OPTIML_SHUFFLE_DOWN, unsigned)
OPTIML_SHUFFLE_FUNCTION(__shfl_xor_sync, OPTIML_SHUFFLE_XOR, int)
#undef OPTIML_SHUFFLE_FUNCTION
OPTIML_INLINE uint64_t optiml_vote(int kind, unsigned mask, uint64_t v) {
  return optiml_device_collective(kind, mask, {v, 0}, 0, 32).low;
}
OPTIML_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { optiml_vote(OPTIML_SYNC, mask, 0); }
OPTIML_INLINE int __any_sync(unsigned mask, int p) { return (int)optiml_vote(OPTIML_ANY, mask, p != 0); }
OPTIML_INLINE int __all_sync(unsigned mask, int p) { return (int)optiml_vote(OPTIML_ALL, mask, p != 0); }
OPTIML_INLINE unsigned __ballot_sync(unsigned mask, int p) { return (unsigned)optiml_vote(OPTIML_BALLOT, mask, p != 0); }
OPTIML_INLINE unsigned __activemask() { return (unsigned)optiml_vote(OPTIML_ACTIVE_MASK, 0, 0); }
OPTIML_INLINE int __reduce_add_sync(unsigned m, int v) { return (int)optiml_vote(OPTIML_REDUCE_ADD, m, (unsigned)v); }
OPTIML_INLINE unsigned __reduce_add_sync(unsigned m, unsigned v) { return (unsigned)optiml_vote(OPTIML_REDUCE_ADD, m, v); }
OPTIML_INLINE int __reduce_min_sync(unsigned m, int v) { return (int)optiml_vote(OPTIML_REDUCE_MIN, m, (unsigned)v); }
OPTIML_INLINE int __reduce_max_sync(unsigned m, int v) { return (int)optiml_vote(OPTIML_REDUCE_MAX, m, (unsigned)v); }
OPTIML_INLINE unsigned __reduce_min_sync(unsigned m, unsigned v) { return (unsigned)optiml_vote(OPTIML_REDUCE_UMIN, m, v); }
OPTIML_INLINE unsigned __reduce_max_sync(unsigned m, unsigned v) { return (unsigned)optiml_vote(OPTIML_REDUCE_UMAX, m, v); }
OPTIML_INLINE unsigned __reduce_and_sync(unsigned m, unsigned v) { return (unsigned)optiml_vote(OPTIML_REDUCE_AND, m, v); }
OPTIML_INLINE unsigned __reduce_or_sync(unsigned m, unsigned v) { return (unsigned)optiml_vote(OPTIML_REDUCE_OR, m, v); }
OPTIML_INLINE unsigned __reduce_xor_sync(unsigned m, unsigned v) { return (unsigned)optiml_vote(OPTIML_REDUCE_XOR, m, v); }
template <class T> OPTIML_INLINE unsigned __match_any_sync(unsigned mask, T v) {
  return (unsigned)optiml_vote(OPTIML_MATCH_ANY, mask, optiml_pack(v).low);
}
template <class T> OPTIML_INLINE unsigned __match_all_sync(unsigned mask, T v, int* predicate) {
  unsigned r = (unsigned)optiml_vote(OPTIML_MATCH_ALL, mask, optiml_pack(v).low);
  *predicate = r != 0;
  return r;
}
