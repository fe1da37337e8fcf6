// memory_functions.h - loads and stores with cache hints, and memcpy with its accesses in sight.
#pragma once
#define OPTIML_HINTED_LOAD(name) template <class T> OPTIML_INLINE T name(const T* p) { return *p; }
OPTIML_HINTED_LOAD(__ldg) OPTIML_HINTED_LOAD(__ldca) OPTIML_HINTED_LOAD(__ldcg) OPTIML_HINTED_LOAD(__ldcs) OPTIML_HINTED_LOAD(__ldlu)
#undef OPTIML_HINTED_LOAD
template <class T> OPTIML_INLINE T __ldcv(const T* p) {
  if constexpr (std::is_arithmetic_v<T>) return *(const volatile T*)p;
  else return *p;
}
template <class T> struct optiml_same { using type = T; };
#define OPTIML_HINTED_STORE(name) \
  template <class T> OPTIML_INLINE void name(T* p, typename optiml_same<T>::type v) { *p = v; }
OPTIML_HINTED_STORE(__stwb) OPTIML_HINTED_STORE(__stcg) OPTIML_HINTED_STORE(__stcs) OPTIML_HINTED_STORE(__stwt)
#undef OPTIML_HINTED_STORE

// The instrumentation sees a copy of 1 to 16 bytes as one load and one store; longer ones go to the runtime.
extern "C" {
void* optiml_device_memcpy(void*, const void*, size_t);
void* optiml_device_memmove(void*, const void*, size_t);
void* optiml_device_memset(void*, int, size_t);
int optiml_device_memcmp(const void*, const void*, size_t);
}
OPTIML_INLINE void* optiml_memcpy(void* to, const void* from, size_t n) {
  if (__builtin_constant_p(n) && (n == 1 || n == 2 || n == 4 || n == 8 || n == 16)) return __builtin_memcpy(to, from, n);
  return optiml_device_memcpy(to, from, n);
}
OPTIML_INLINE void* optiml_memmove(void* to, const void* from, size_t n) { return optiml_device_memmove(to, from, n); }
OPTIML_INLINE void* optiml_memset(void* to, int v, size_t n) { return optiml_device_memset(to, v, n); }
OPTIML_INLINE int optiml_memcmp(const void* a, const void* b, size_t n) { return optiml_device_memcmp(a, b, n); }
#define memcpy optiml_memcpy
#define memmove optiml_memmove
#define memset optiml_memset
#define memcmp optiml_memcmp
namespace std { using ::optiml_memcpy; using ::optiml_memmove; using ::optiml_memset; using ::optiml_memcmp; }

extern "C" int optiml_device_space_of(const void*);
OPTIML_INLINE unsigned __isGlobal(const void* p) { return optiml_device_space_of(p) == 0; }
OPTIML_INLINE unsigned __isShared(const void* p) { return optiml_device_space_of(p) == 1; }
OPTIML_INLINE unsigned __isConstant(const void*) { return 0; }
OPTIML_INLINE unsigned __isLocal(const void* p) { return optiml_device_space_of(p) == 3; }
