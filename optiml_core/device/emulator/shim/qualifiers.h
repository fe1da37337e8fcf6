// qualifiers.h - CUDA's keywords as g++ attributes.
#pragma once
#define __CUDACC__ 1
#define __CUDA_ARCH__ 900
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define CUDART_VERSION 13000
#define __global__ __attribute__((noinline, used))
#define __device__
#define __host__
#define __constant__
#define __managed__
// used: an array that is read and never written must not fold to zero; on a device it holds what was there before.
#define __shared__ static __attribute__((aligned(128), used))
#define __launch_bounds__(...)
#define __maxnreg__(n)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __builtin_align__(n) __attribute__((aligned(n)))
