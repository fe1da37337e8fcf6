// cuda_atomic.h - cuda::atomic_ref and cuda::atomic over the plain atomics. An order of release or
// acquire is a fence before or after.
#pragma once
extern "C" {
unsigned long optiml_device_strong_load(const void* p, unsigned bytes);
void optiml_device_strong_store(void* p, unsigned bytes, unsigned long v);
unsigned long optiml_device_update_begin(void* p, unsigned bytes);       // the old value; nothing runs until
void optiml_device_update_end(void* p, unsigned bytes, unsigned long v);  // the new one is there
}
namespace cuda {
OPTIML_INLINE void optiml_before(memory_order o) { if (o >= ::cuda::std::memory_order_release) optiml_device_fence(); }
OPTIML_INLINE void optiml_after(memory_order o) { if (o != ::cuda::std::memory_order_relaxed && o != ::cuda::std::memory_order_release) optiml_device_fence(); }
using ::cuda::std::memory_order_relaxed; using ::cuda::std::memory_order_acquire; using ::cuda::std::memory_order_release;
using ::cuda::std::memory_order_acq_rel; using ::cuda::std::memory_order_seq_cst; using ::cuda::std::memory_order_consume;

template <class T, thread_scope S = thread_scope_system> class atomic_ref {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "the emulator's atomics have 4 or 8 bytes");
  using word = ::std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
  T* p;
  template <class F> OPTIML_METHOD T update(memory_order o, F f) const {
    optiml_before(o);
    T old = optiml_cast_bits<T>((word)optiml_device_update_begin(p, sizeof(T)));
    optiml_device_update_end(p, sizeof(T), optiml_cast_bits<word>(f(old)));
    optiml_after(o);
    return old;
  }
 public:
  OPTIML_METHOD explicit atomic_ref(T& v) : p(&v) {}
  OPTIML_METHOD T load(memory_order o = memory_order_seq_cst) const {
    T v = optiml_cast_bits<T>((word)optiml_device_strong_load(p, sizeof(T)));
    optiml_after(o);
    return v;
  }
  OPTIML_METHOD void store(T v, memory_order o = memory_order_seq_cst) const {
    optiml_before(o);
    optiml_device_strong_store(p, sizeof(T), optiml_cast_bits<word>(v));
  }
  OPTIML_METHOD T exchange(T v, memory_order o = memory_order_seq_cst) const { return update(o, [v](T) { return v; }); }
  OPTIML_METHOD T fetch_add(T v, memory_order o = memory_order_seq_cst) const { return update(o, [v](T a) { return (T)(a + v); }); }
  OPTIML_METHOD T fetch_sub(T v, memory_order o = memory_order_seq_cst) const { return update(o, [v](T a) { return (T)(a - v); }); }
  OPTIML_METHOD T fetch_max(T v, memory_order o = memory_order_seq_cst) const { return update(o, [v](T a) { return a < v ? v : a; }); }
  OPTIML_METHOD T fetch_min(T v, memory_order o = memory_order_seq_cst) const { return update(o, [v](T a) { return v < a ? v : a; }); }
  OPTIML_METHOD T fetch_and(T v, memory_order o = memory_order_seq_cst) const { return update(o, [v](T a) { return (T)(a & v); }); }
  OPTIML_METHOD T fetch_or(T v, memory_order o = memory_order_seq_cst) const { return update(o, [v](T a) { return (T)(a | v); }); }
  OPTIML_METHOD T fetch_xor(T v, memory_order o = memory_order_seq_cst) const { return update(o, [v](T a) { return (T)(a ^ v); }); }
  OPTIML_METHOD bool compare_exchange_strong(T& expected, T desired, memory_order o = memory_order_seq_cst, memory_order = memory_order_seq_cst) const {
    optiml_before(o);
    word want = optiml_cast_bits<word>(expected), old = atomicCAS((word*)p, want, optiml_cast_bits<word>(desired));
    optiml_after(o);
    if (old == want) return true;
    expected = optiml_cast_bits<T>(old);
    return false;
  }
  OPTIML_METHOD bool compare_exchange_weak(T& expected, T desired, memory_order o = memory_order_seq_cst, memory_order q = memory_order_seq_cst) const {
    return compare_exchange_strong(expected, desired, o, q);
  }
  OPTIML_METHOD T operator++(int) const { return fetch_add(1); }
  OPTIML_METHOD T operator--(int) const { return fetch_sub(1); }
  OPTIML_METHOD T operator++() const { return fetch_add(1) + 1; }
  OPTIML_METHOD T operator+=(T v) const { return fetch_add(v) + v; }
  OPTIML_METHOD operator T() const { return load(); }
  OPTIML_METHOD T operator=(T v) const { store(v); return v; }
};
template <class T, thread_scope S = thread_scope_system> class atomic {
  T value;
  OPTIML_METHOD atomic_ref<T, S> ref() const { return atomic_ref<T, S>(const_cast<T&>(value)); }
 public:
  atomic() = default;
  constexpr atomic(T v) : value(v) {}
#define OPTIML_FORWARD(name) \
  template <class... A> OPTIML_METHOD auto name(A&&... a) { return ref().name(static_cast<A&&>(a)...); }
  OPTIML_FORWARD(load) OPTIML_FORWARD(store) OPTIML_FORWARD(exchange) OPTIML_FORWARD(fetch_add) OPTIML_FORWARD(fetch_sub)
  OPTIML_FORWARD(fetch_max) OPTIML_FORWARD(fetch_min) OPTIML_FORWARD(fetch_and) OPTIML_FORWARD(fetch_or) OPTIML_FORWARD(fetch_xor)
  OPTIML_FORWARD(compare_exchange_strong) OPTIML_FORWARD(compare_exchange_weak)
#undef OPTIML_FORWARD
  OPTIML_METHOD T operator++(int) { return ref()++; }
  OPTIML_METHOD operator T() const { return ref().load(); }
  OPTIML_METHOD T operator=(T v) { ref().store(v); return v; }
};
OPTIML_INLINE void atomic_thread_fence(memory_order, thread_scope = thread_scope_system) { optiml_device_fence(); }
}
