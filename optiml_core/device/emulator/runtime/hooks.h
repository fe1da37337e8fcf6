// hooks.h - the functions that an instrumented kernel calls: g++'s access hooks (the names are the
// thread sanitizer's, whose own runtime is not linked) and the built-ins of the shim.
#pragma once
#include "access.h"

#define CALLER ((uintptr_t)__builtin_return_address(0))
#define HOOK(name, bytes, kind) \
  extern "C" void name(void* p) { access((uintptr_t)p, bytes, kind, CALLER); }
#define HOOKS(n)                                 \
  HOOK(__tsan_read##n, n, OPTIML_LOAD)           \
  HOOK(__tsan_write##n, n, OPTIML_STORE)         \
  HOOK(__tsan_unaligned_read##n, n, OPTIML_LOAD) \
  HOOK(__tsan_unaligned_write##n, n, OPTIML_STORE) \
  HOOK(__tsan_volatile_read##n, n, OPTIML_LOAD)  \
  HOOK(__tsan_volatile_write##n, n, OPTIML_STORE)
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
#undef HOOKS
#undef HOOK
extern "C" void __tsan_read_range(void* p, size_t n) { for (size_t i = 0; i < n; i += 4) access((uintptr_t)p + i, 4, OPTIML_LOAD, CALLER); }
extern "C" void __tsan_write_range(void* p, size_t n) { for (size_t i = 0; i < n; i += 4) access((uintptr_t)p + i, 4, OPTIML_STORE, CALLER); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_vptr_update(void*, void*) {}
extern "C" void __tsan_vptr_read(void*) {}

extern "C" Vector3 optiml_device_thread_index() { return E.current->index; }
extern "C" Vector3 optiml_device_block_index() { return E.block_index; }
extern "C" Vector3 optiml_device_block_dim() { return E.block; }
extern "C" Vector3 optiml_device_grid_dim() { return E.grid; }
extern "C" int optiml_device_lane() { return E.current->number; }
extern "C" void* optiml_device_dynamic_shared() { return optiml_dynamic_shared; }
extern "C" void optiml_device_fence() {}
extern "C" int optiml_device_barrier(unsigned label, int operation, int value) {
  Lane* l = E.current;
  l->state = AT_BARRIER; l->operation = (uint8_t)operation; l->value.low = value != 0; l->mask = label; l->pc = CALLER;
  run_next(l);
  return (int)l->result.low;
}
extern "C" Bits optiml_device_collective(int kind, unsigned mask, Bits value, int argument, int width) {
  Lane* l = E.current;
  l->state = AT_COLLECTIVE; l->operation = (uint8_t)kind; l->mask = mask; l->value = value; l->argument = argument;
  l->width = width; l->pc = CALLER;
  run_next(l);
  return l->result;
}

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
