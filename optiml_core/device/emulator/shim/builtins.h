// builtins.h - built-in variables and block barriers.
#pragma once
extern "C" {
uint3 optiml_device_thread_index() __attribute__((const));
uint3 optiml_device_block_index() __attribute__((const));
uint3 optiml_device_block_dim() __attribute__((const));
uint3 optiml_device_grid_dim() __attribute__((const));
int optiml_device_lane() __attribute__((const));
int optiml_device_barrier(unsigned label, int operation, int value);
void* optiml_device_dynamic_shared() __attribute__((const));
void optiml_device_fence();
}
// Calls of const functions, not variables: reading a variable would be seen as an access.
#define threadIdx (optiml_device_thread_index())
#define blockIdx (optiml_device_block_index())
#define blockDim (optiml_device_block_dim())
#define gridDim (optiml_device_grid_dim())
#define warpSize 32

// A barrier carries a label of its place in the source: g++ may duplicate the call, and the copies
// are still one barrier.
#define __syncthreads() ((void)optiml_device_barrier(__COUNTER__, 3, 0))
#define __syncthreads_count(p) optiml_device_barrier(__COUNTER__, 0, (p))
#define __syncthreads_and(p) optiml_device_barrier(__COUNTER__, 1, (p))
#define __syncthreads_or(p) optiml_device_barrier(__COUNTER__, 2, (p))
OPTIML_INLINE void __threadfence() { optiml_device_fence(); }
OPTIML_INLINE void __threadfence_block() { optiml_device_fence(); }
OPTIML_INLINE void __threadfence_system() { optiml_device_fence(); }
