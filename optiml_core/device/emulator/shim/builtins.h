// builtins.h - built-in variables, block barriers, fences, clocks, printf and assert.
#pragma once
extern "C" {
uint3 optiml_device_thread_index() __attribute__((const));
uint3 optiml_device_block_index() __attribute__((const));
uint3 optiml_device_block_dim() __attribute__((const));
uint3 optiml_device_grid_dim() __attribute__((const));
int optiml_device_lane() __attribute__((const));
unsigned optiml_device_thread() __attribute__((const));
int optiml_device_barrier(unsigned label, int operation, int value);
void* optiml_device_dynamic_shared() __attribute__((const));
unsigned long optiml_device_dynamic_shared_size() __attribute__((const));
void optiml_device_fence();
unsigned long optiml_device_clock();
void optiml_device_sleep(unsigned);
void optiml_device_assert(unsigned line) __attribute__((noreturn));
void optiml_device_trap() __attribute__((noreturn));
}
// Calls of const functions, not variables: reading a variable would be seen as an access.
#define threadIdx (optiml_device_thread_index())
#define blockIdx (optiml_device_block_index())
#define blockDim (optiml_device_block_dim())
#define gridDim (optiml_device_grid_dim())
#define warpSize 32

// A barrier carries a label of its place in the source: g++ may duplicate the call, and the copies
// are still one barrier.
#define __syncthreads() ((void)optiml_device_barrier(__COUNTER__ + 1, 3, 0))
#define __syncthreads_count(p) optiml_device_barrier(__COUNTER__ + 1, 0, (p))
#define __syncthreads_and(p) optiml_device_barrier(__COUNTER__ + 1, 1, (p))
#define __syncthreads_or(p) optiml_device_barrier(__COUNTER__ + 1, 2, (p))
OPTIML_INLINE void __threadfence() { optiml_device_fence(); }
OPTIML_INLINE void __threadfence_block() { optiml_device_fence(); }
OPTIML_INLINE void __threadfence_system() { optiml_device_fence(); }

OPTIML_INLINE long long optiml_clock() { return (long long)optiml_device_clock(); }
#define clock optiml_clock
#define clock64 optiml_clock
OPTIML_INLINE void __nanosleep(unsigned ns) { optiml_device_sleep(ns); }
OPTIML_INLINE void __trap() { optiml_device_trap(); }
OPTIML_INLINE void __brkpt() {}
OPTIML_INLINE void __prof_trigger(int) {}

#ifndef NDEBUG
#define assert(e) ((e) ? (void)0 : optiml_device_assert(__LINE__))
#endif

struct optiml_print_argument { unsigned long bits; double number; unsigned kind; };
extern "C" int optiml_device_printf(const char* format, const optiml_print_argument* arguments, unsigned count);
template <class T> OPTIML_INLINE optiml_print_argument optiml_print_value(T v) {
  if constexpr (std::is_pointer_v<T>) return {(unsigned long)v, 0, 2};
  else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) return {(unsigned long)(long)v, (double)(long)v, 0};
  else return {(unsigned long)(long)(double)v, (double)v, 1};
}
template <class... A> OPTIML_INLINE int optiml_printf(const char* format, A... values) {
  optiml_print_argument arguments[sizeof...(A) + 1] = {optiml_print_value(values)...};
  return optiml_device_printf(format, arguments, sizeof...(A));
}
#define printf optiml_printf
namespace std { using ::optiml_printf; }
