// atomics.h - atomics, carried out inside the runtime.
#pragma once
#define ATOMIC(name, suffix, T, expression)                             \
  extern "C" T optiml_device_##name##_##suffix(T*, T);                  \
  OPTIML_INLINE T name(T* p, T v) { return optiml_device_##name##_##suffix(p, v); } \
  OPTIML_INLINE T name##_block(T* p, T v) { return optiml_device_##name##_##suffix(p, v); } \
  OPTIML_INLINE T name##_system(T* p, T v) { return optiml_device_##name##_##suffix(p, v); }
#define COMPARE_AND_SWAP(suffix, T)                                     \
  extern "C" T optiml_device_atomicCAS_##suffix(T*, T, T);              \
  OPTIML_INLINE T atomicCAS(T* p, T c, T v) { return optiml_device_atomicCAS_##suffix(p, c, v); } \
  OPTIML_INLINE T atomicCAS_block(T* p, T c, T v) { return optiml_device_atomicCAS_##suffix(p, c, v); } \
  OPTIML_INLINE T atomicCAS_system(T* p, T c, T v) { return optiml_device_atomicCAS_##suffix(p, c, v); }
#include "atomic_list.inc"
#undef ATOMIC
#undef COMPARE_AND_SWAP
