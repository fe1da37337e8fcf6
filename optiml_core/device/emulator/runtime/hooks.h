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

// Copies and fills of any length: by the shim's memcpy, and (candidates are linked with --wrap) by g++'s own calls.
static void* copy_bytes(void* to, const void* from, size_t n, uintptr_t pc) {
  if (E.current) { access_bytes((uintptr_t)from, n, OPTIML_LOAD, pc); access_bytes((uintptr_t)to, n, OPTIML_STORE, pc); }
  return memmove(to, from, n);
}
static void* fill_bytes(void* to, int value, size_t n, uintptr_t pc) {
  if (E.current) access_bytes((uintptr_t)to, n, OPTIML_STORE, pc);
  return memset(to, value, n);
}
static int compare_bytes(const void* a, const void* b, size_t n, uintptr_t pc) {
  if (E.current) { access_bytes((uintptr_t)a, n, OPTIML_LOAD, pc); access_bytes((uintptr_t)b, n, OPTIML_LOAD, pc); }
  return memcmp(a, b, n);
}
#define BYTES(prefix)                                                                                            \
  extern "C" void* prefix##memcpy(void* to, const void* from, size_t n) { return copy_bytes(to, from, n, CALLER); }  \
  extern "C" void* prefix##memmove(void* to, const void* from, size_t n) { return copy_bytes(to, from, n, CALLER); } \
  extern "C" void* prefix##memset(void* to, int v, size_t n) { return fill_bytes(to, v, n, CALLER); }                \
  extern "C" int prefix##memcmp(const void* a, const void* b, size_t n) { return compare_bytes(a, b, n, CALLER); }
BYTES(__wrap_) BYTES(optiml_device_)
#undef BYTES

// 0 global (or a module variable), 1 shared, 3 local: the kind of memory a generic pointer leads to.
extern "C" int optiml_device_space_of(const void* p) {
  if ((uintptr_t)p - E.stack_low < E.stack_bytes) return 3;
  Range* r = find_range((uintptr_t)p, 1);
  return r && r->space == OPTIML_SHARED;
}

// ---- atomics: hooked and carried out here -------------------------------------------------------------
// Behind an inner loop: lanes that left it early wait here for those that are still in it.
extern "C" void optiml_device_meet() {
  Lane* l = E.current;
  if (!l || !E.lockstep) return;
  Warp* w = l->warp; int i = l->number;
  w->pc[i] = CALLER; w->site[i] = MEETING;
  w->depth[i] = (uint32_t)((uintptr_t)l->stack_top - (uintptr_t)__builtin_frame_address(0));
  w->at_access |= 1u << i;
  run_next(l);
}
extern "C" void optiml_device_counting_up() {
  if (E.current) E.current->warp->counting_up |= 1u << E.current->number;
}
static constexpr bool is_exchange(const char* name) { return name[6] == 'E'; }
#define ATOMIC(name, suffix, T, expression)                              \
  extern "C" T optiml_device_##name##_##suffix(T* p, T v) {              \
    access((uintptr_t)p, sizeof(T), OPTIML_ATOMIC, CALLER, is_exchange(#name)); \
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

// The loads, stores and updates of cuda::atomic, of 4 or 8 bytes.
static void strong(void* p, uint32_t bytes, int kind, uintptr_t pc) {
  if (bytes == 4) access((uintptr_t)p, 4, kind, pc, true); else access((uintptr_t)p, 8, kind, pc, true);
}
extern "C" uint64_t optiml_device_strong_load(const void* p, uint32_t bytes) {
  strong((void*)p, bytes, OPTIML_LOAD, CALLER);
  return bytes == 4 ? *(const uint32_t*)p : *(const uint64_t*)p;
}
static void* updating;  // an update's second half stores only where its first half was let through
extern "C" void optiml_device_update_end(void* p, uint32_t bytes, uint64_t v) {
  if (p != updating) return;
  updating = nullptr;
  if (bytes == 4) *(uint32_t*)p = (uint32_t)v; else *(uint64_t*)p = v;
}
extern "C" void optiml_device_strong_store(void* p, uint32_t bytes, uint64_t v) {
  strong(p, bytes, OPTIML_STORE, CALLER);
  updating = p;
  optiml_device_update_end(p, bytes, v);
}
extern "C" uint64_t optiml_device_update_begin(void* p, uint32_t bytes) {
  strong(p, bytes, OPTIML_ATOMIC, CALLER);
  updating = p;
  return bytes == 4 ? *(const uint32_t*)p : *(const uint64_t*)p;
}
