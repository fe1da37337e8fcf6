// hooks.h - the functions that an instrumented kernel calls at its accesses. g++ names them after
// the thread sanitizer, whose own runtime is not linked.
#pragma once
#include "async_copies.h"
#include "half_numbers.h"

#define HOOK(name, bytes, kind, is_volatile) \
  extern "C" void name(void* p) { access((uintptr_t)p, bytes, kind, CALLER, is_volatile); }
// A pointer whose type promises no alignment: an access if it happens to be aligned, else byte by byte.
#define UNALIGNED(name, bytes, kind)                                          \
  extern "C" void name(void* p) {                                             \
    if ((uintptr_t)p & (bytes - 1)) access_bytes((uintptr_t)p, bytes, kind, CALLER); \
    else access((uintptr_t)p, bytes, kind, CALLER);                           \
  }
#define HOOKS(n)                                            \
  HOOK(__tsan_read##n, n, OPTIML_LOAD, false)               \
  HOOK(__tsan_write##n, n, OPTIML_STORE, false)             \
  HOOK(__tsan_volatile_read##n, n, OPTIML_LOAD, true)       \
  HOOK(__tsan_volatile_write##n, n, OPTIML_STORE, true)     \
  UNALIGNED(__tsan_unaligned_read##n, n, OPTIML_LOAD)       \
  UNALIGNED(__tsan_unaligned_write##n, n, OPTIML_STORE)     \
  UNALIGNED(__tsan_unaligned_volatile_read##n, n, OPTIML_LOAD) \
  UNALIGNED(__tsan_unaligned_volatile_write##n, n, OPTIML_STORE)
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
#undef HOOKS
#undef UNALIGNED
#undef HOOK
extern "C" void __tsan_read_range(void* p, size_t n) { access_bytes((uintptr_t)p, n, OPTIML_LOAD, CALLER); }
extern "C" void __tsan_write_range(void* p, size_t n) { access_bytes((uintptr_t)p, n, OPTIML_STORE, CALLER); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void*, void*) {}
extern "C" void __tsan_vptr_read(void*) {}

// Copies and fills of run-time length: candidates are linked with --wrap, so that these are called.
extern "C" void* __wrap_memcpy(void* to, const void* from, size_t n) {
  if (E.current) { access_bytes((uintptr_t)from, n, OPTIML_LOAD, CALLER); access_bytes((uintptr_t)to, n, OPTIML_STORE, CALLER + 1); }
  return memmove(to, from, n);
}
extern "C" void* __wrap_memmove(void* to, const void* from, size_t n) {
  if (E.current) { access_bytes((uintptr_t)from, n, OPTIML_LOAD, CALLER); access_bytes((uintptr_t)to, n, OPTIML_STORE, CALLER + 1); }
  return memmove(to, from, n);
}
extern "C" void* __wrap_memset(void* to, int value, size_t n) {
  if (E.current) access_bytes((uintptr_t)to, n, OPTIML_STORE, CALLER);
  return memset(to, value, n);
}
extern "C" int __wrap_memcmp(const void* a, const void* b, size_t n) {
  if (E.current) { access_bytes((uintptr_t)a, n, OPTIML_LOAD, CALLER); access_bytes((uintptr_t)b, n, OPTIML_LOAD, CALLER + 1); }
  return memcmp(a, b, n);
}

// ---- atomics: hooked and carried out here -------------------------------------------------------------
#define ATOMIC(name, suffix, T, expression)                              \
  extern "C" T optiml_device_##name##_##suffix(T* p, T v) {              \
    access((uintptr_t)p, sizeof(T), OPTIML_ATOMIC, CALLER);              \
    T o = *p;                                                            \
    *p = (expression);                                                   \
    return o;                                                            \
  }
#define COMPARE_AND_SWAP(suffix, T)                                      \
  extern "C" T optiml_device_atomicCAS_##suffix(T* p, T c, T v) {        \
    access((uintptr_t)p, sizeof(T), OPTIML_ATOMIC, CALLER);              \
    T o = *p;                                                            \
    if (o == c) *p = v;                                                  \
    return o;                                                            \
  }
#include "../shim/atomic_list.inc"
#undef ATOMIC
#undef COMPARE_AND_SWAP

// Atomic loads and stores of cuda::atomic, which are strong but no read-modify-write.
extern "C" void optiml_device_strong_access(void* p, uint32_t bytes, int store) {
  int kind = store ? OPTIML_STORE : OPTIML_LOAD;
  switch (bytes) {
    case 1: access((uintptr_t)p, 1, kind, CALLER, true); break;
    case 2: access((uintptr_t)p, 2, kind, CALLER, true); break;
    case 4: access((uintptr_t)p, 4, kind, CALLER, true); break;
    default: access((uintptr_t)p, 8, kind, CALLER, true); break;
  }
}
