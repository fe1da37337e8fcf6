// group_functions.h - cooperative_groups/reduce.h, scan.h and memcpy_async.h.
#pragma once
namespace cooperative_groups {
template <class T = void> struct plus { template <class A> OPTIML_METHOD A operator()(A a, A b) const { return a + b; } };
template <class T = void> struct less { template <class A> OPTIML_METHOD A operator()(A a, A b) const { return b < a ? b : a; } };
template <class T = void> struct greater { template <class A> OPTIML_METHOD A operator()(A a, A b) const { return a < b ? b : a; } };
template <class T = void> struct bit_and { template <class A> OPTIML_METHOD A operator()(A a, A b) const { return a & b; } };
template <class T = void> struct bit_or { template <class A> OPTIML_METHOD A operator()(A a, A b) const { return a | b; } };
template <class T = void> struct bit_xor { template <class A> OPTIML_METHOD A operator()(A a, A b) const { return a ^ b; } };

// Every member gets the result. Values are combined in a tree over the members' ranks.
template <class G, class T, class Op> OPTIML_METHOD T reduce(const G& g, T v, Op op) {
  unsigned n = g.size(), r = g.thread_rank();
  for (unsigned by = 1; by < n; by *= 2) {
    T other = g.shfl_down(v, by);
    if (r + by < n) v = op(v, other);
  }
  return g.shfl(v, 0);
}
template <class G, class T, class Op> OPTIML_METHOD T inclusive_scan(const G& g, T v, Op op) {
  unsigned n = g.size(), r = g.thread_rank();
  for (unsigned by = 1; by < n; by *= 2) {
    T other = g.shfl_up(v, by);
    if (r >= by) v = op(other, v);
  }
  return v;
}
template <class G, class T> OPTIML_METHOD T inclusive_scan(const G& g, T v) { return inclusive_scan(g, v, plus<T>()); }
template <class G, class T, class Op> OPTIML_METHOD T exclusive_scan(const G& g, T v, Op op) {
  T before = g.shfl_up(inclusive_scan(g, v, op), 1);
  return g.thread_rank() ? before : T();
}
template <class G, class T> OPTIML_METHOD T exclusive_scan(const G& g, T v) { return exclusive_scan(g, v, plus<T>()); }
template <class G, class F> OPTIML_METHOD void invoke_one(const G& g, F f) { if (g.thread_rank() == 0) f(); }

template <class G, class Size> OPTIML_METHOD void memcpy_async(const G& g, void* to, const void* from, Size bytes) {
  ::cuda::optiml_copy_group(g, to, from, (size_t)bytes);
  optiml_device_copy_commit();
}
template <class G, class T, class S>
OPTIML_METHOD void memcpy_async(const G& g, T* to, size_t to_count, const S* from, size_t from_count) {
  memcpy_async(g, (void*)to, (const void*)from, sizeof(T) * (to_count < from_count ? to_count : from_count));
}
template <class G> OPTIML_METHOD void wait(const G& g) { optiml_device_copy_wait_all(); g.sync(); }
template <unsigned Prior, class G> OPTIML_METHOD void wait_prior(const G& g) { optiml_device_copy_wait(Prior); g.sync(); }
}
