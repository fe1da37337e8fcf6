// atomics.h - atomics, carried out inside the runtime. The scopes make no difference to one grid.
#pragma once
// A shared counter that goes up by a constant one takes all lanes of one address in one pass (ATOMS.POPC.INC).
extern "C" void optiml_device_counting_up();
extern "C" void optiml_device_meet();  // behind inner loops: meeting_points.py puts it there
OPTIML_INLINE bool optiml_is_one(int v) { return v == 1; }
OPTIML_INLINE bool optiml_is_one(unsigned v) { return v == 1; }
template <class T> OPTIML_INLINE bool optiml_is_one(T) { return false; }
static constexpr bool optiml_is_add(const char* name) { return name[6] == 'A' && name[7] == 'd'; }
#define ATOMIC_SCOPED(name, scope, suffix, T)                                                \
  OPTIML_INLINE T name##scope(T* p, T v) {                                                   \
    if (optiml_is_add(#name) && __builtin_constant_p(v) && optiml_is_one(v)) optiml_device_counting_up(); \
    return optiml_device_##name##_##suffix(p, v);                                            \
  }
#define ATOMIC(name, suffix, T, expression)                                                  \
  extern "C" T optiml_device_##name##_##suffix(T*, T);                                       \
  ATOMIC_SCOPED(name, , suffix, T) ATOMIC_SCOPED(name, _block, suffix, T) ATOMIC_SCOPED(name, _system, suffix, T)
#define COMPARE_AND_SWAP(suffix, T)                                                                           \
  extern "C" T optiml_device_atomicCAS_##suffix(T*, T, T);                                                    \
  OPTIML_INLINE T atomicCAS(T* p, T c, T v) { return optiml_device_atomicCAS_##suffix(p, c, v); }             \
  OPTIML_INLINE T atomicCAS_block(T* p, T c, T v) { return optiml_device_atomicCAS_##suffix(p, c, v); }       \
  OPTIML_INLINE T atomicCAS_system(T* p, T c, T v) { return optiml_device_atomicCAS_##suffix(p, c, v); }
#include "atomic_list.inc"
#undef ATOMIC
#undef ATOMIC_SCOPED
#undef COMPARE_AND_SWAP
// 64-bit unsigned integers under their other name.
OPTIML_INLINE unsigned long atomicAdd(unsigned long* p, unsigned long v) { return atomicAdd((unsigned long long*)p, (unsigned long long)v); }
OPTIML_INLINE unsigned long atomicCAS(unsigned long* p, unsigned long c, unsigned long v) {
  return atomicCAS((unsigned long long*)p, (unsigned long long)c, (unsigned long long)v); }

extern "C" {
unsigned short optiml_device_atomicAdd_half(unsigned short*, unsigned short);
unsigned optiml_device_atomicAdd_halfx2(unsigned*, unsigned);
unsigned short optiml_device_atomicAdd_bfloat16(unsigned short*, unsigned short);
unsigned optiml_device_atomicAdd_bfloat16x2(unsigned*, unsigned);
}
#define OPTIML_SMALL_ATOMIC(H, H2, name, scope)                                                                            \
  OPTIML_INLINE H atomicAdd##scope(H* p, H v) { return optiml_raw16{optiml_device_atomicAdd_##name((unsigned short*)p, v.__x)}; } \
  OPTIML_INLINE H2 atomicAdd##scope(H2* p, H2 v) {                                                                         \
    return optiml_cast_bits<H2>(optiml_device_atomicAdd_##name##x2((unsigned*)p, v.x.__x | (unsigned)v.y.__x << 16)); }
OPTIML_SMALL_ATOMIC(__half, __half2, half, ) OPTIML_SMALL_ATOMIC(__half, __half2, half, _block) OPTIML_SMALL_ATOMIC(__half, __half2, half, _system)
OPTIML_SMALL_ATOMIC(__nv_bfloat16, __nv_bfloat162, bfloat16, ) OPTIML_SMALL_ATOMIC(__nv_bfloat16, __nv_bfloat162, bfloat16, _block)
OPTIML_SMALL_ATOMIC(__nv_bfloat16, __nv_bfloat162, bfloat16, _system)
#undef OPTIML_SMALL_ATOMIC
OPTIML_INLINE float2 atomicAdd(float2* p, float2 v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }
OPTIML_INLINE float4 atomicAdd(float4* p, float4 v) {
  return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y), atomicAdd(&p->z, v.z), atomicAdd(&p->w, v.w)}; }
