// What every CUDA file has without including anything, because nvcc includes cuda_runtime.h and with it <cmath>,
// <cstdlib> and <climits>. Written for NVRTC; plain C++ besides the qualifiers, so that a host compiler for which
// __host__ and __device__ are empty macros takes it, too.
#pragma once

#define OPTIML_DEVICE __host__ __device__

#include "climits"
#include "cmath"
#include "cstddef"

#ifdef __CUDACC_RTC__
// <sys/types.h> brings the signed ones; the unsigned ones need <cstdint>. libcu++ has int64_t as long long.
#ifndef _CUDA_STD_CSTDINT
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
#endif
typedef unsigned char u_int8_t;
typedef unsigned short u_int16_t;
typedef unsigned int u_int32_t;
typedef unsigned char u_char;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long ssize_t;
#endif

// nvcc still takes the storage class that C++17 removed; NVRTC does not.
#if defined(__CUDACC_RTC__) && __cplusplus >= 201703L
#define register
#endif

#ifndef RAND_MAX
#define RAND_MAX 2147483647
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#endif
