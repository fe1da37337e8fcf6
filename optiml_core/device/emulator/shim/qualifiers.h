// qualifiers.h - CUDA's keywords as g++ attributes.
#pragma once
#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDA_ARCH__ 900
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 88
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000
#define __CUDA_FP16_TYPES_EXIST__ 1
#define __global__ __attribute__((noinline, used))
#define __device__
#define __host__
// used: what only the host sets, or what is read and never written, must not fold to zero.
#define __constant__ __attribute__((used))
#define __managed__ __attribute__((used))
#define __shared__ static __attribute__((aligned(128), used))
#define __launch_bounds__(...)
#define __maxnreg__(n)
#define __block_size__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __inline_hint__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __nv_pure__
#define __tile_static__
#define __host_device__
#define __restrict __restrict__
#define __builtin_assume(e) ((void)((e) ? 0 : (__builtin_unreachable(), 0)))
#define __assume(e) __builtin_assume(e)
#define __builtin_assume_aligned(p, ...) (p)
#define NULL_STREAM 0
