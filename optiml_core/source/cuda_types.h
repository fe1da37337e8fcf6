// The types that CUDA code names without including anything that is read here: just enough for a
// parser to lay out kernel parameters. Bodies are never compiled against it. Sizes and alignments
// are those of the CUDA C++ Programming Guide.
#pragma once
#define __global__
#define __tile_global__
#define __device__
#define __host__
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define CUDART_CB
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __block_size__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __CUDACC__ 1
#define __CUDA__ 1
#define __CUDACC_VER_MAJOR__ 13
#define CUDART_VERSION 13000
#define NULL 0

typedef unsigned long size_t;
typedef long ssize_t;
typedef long ptrdiff_t;
typedef long clock_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define OPTIML_VECTORS(name, type, align2, align4)              \
  struct name##1 { type x; };                                   \
  struct __align__(align2) name##2 { type x, y; };              \
  struct name##3 { type x, y, z; };                             \
  struct __align__(align4) name##4 { type x, y, z, w; };
OPTIML_VECTORS(char, signed char, 2, 4)
OPTIML_VECTORS(uchar, unsigned char, 2, 4)
OPTIML_VECTORS(short, short, 4, 8)
OPTIML_VECTORS(ushort, unsigned short, 4, 8)
OPTIML_VECTORS(int, int, 8, 16)
OPTIML_VECTORS(uint, unsigned int, 8, 16)
OPTIML_VECTORS(long, long, 16, 16)
OPTIML_VECTORS(ulong, unsigned long, 16, 16)
OPTIML_VECTORS(longlong, long long, 16, 16)
OPTIML_VECTORS(ulonglong, unsigned long long, 16, 16)
OPTIML_VECTORS(float, float, 8, 16)
OPTIML_VECTORS(double, double, 16, 16)
#undef OPTIML_VECTORS
struct dim3 { unsigned int x, y, z; };

struct __align__(2) __half { unsigned short bits; };
typedef __half half;
struct __align__(4) __half2 { __half x, y; };
typedef __half2 half2;
struct __align__(2) __nv_bfloat16 { unsigned short bits; };
typedef __nv_bfloat16 nv_bfloat16;
struct __align__(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
typedef __nv_bfloat162 nv_bfloat162;
struct __nv_fp8_e4m3 { unsigned char bits; };
struct __nv_fp8_e5m2 { unsigned char bits; };
struct __align__(2) __nv_fp8x2_e4m3 { unsigned short bits; };
struct __align__(4) __nv_fp8x4_e4m3 { unsigned int bits; };
struct __align__(2) __nv_fp8x2_e5m2 { unsigned short bits; };
struct __align__(4) __nv_fp8x4_e5m2 { unsigned int bits; };
typedef float2 cuFloatComplex;
typedef float2 cuComplex;
typedef double2 cuDoubleComplex;
typedef float2 cufftComplex;
typedef double2 cufftDoubleComplex;
typedef float cufftReal;
typedef double cufftDoubleReal;

typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
enum cudaError_t { cudaSuccess = 0 };
struct FILE;

namespace std {
using ::size_t; using ::ptrdiff_t;
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::intptr_t; using ::uintptr_t;
template <class T, size_t N> struct array { T values[N]; };
template <class A, class B> struct pair { A first; B second; };
}  // namespace std
namespace cuda { namespace std { using namespace ::std; } }
namespace cooperative_groups {}
namespace nvcuda { namespace wmma {} }

// ``complete<decltype(&kernel)>::size`` makes a parser lay out every type that the parameters name.
namespace optiml {
template <class T> struct bare { typedef T type; };
template <class T> struct bare<T*> { typedef T type; };
template <class T> struct bare<T&> { typedef T type; };
template <class T, class = void> struct size_of { static constexpr size_t size = 0; };
template <class T> struct size_of<T, decltype(void(sizeof(T)))> { static constexpr size_t size = sizeof(T); };
template <class F> struct complete { static constexpr size_t size = 0; };
template <class... A> struct complete<void (*)(A...)> {
  static constexpr size_t size = (size_t(0) + ... + size_of<typename bare<A>::type>::size);
};
}  // namespace optiml
