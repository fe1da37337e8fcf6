// async_copies.h - cp.async in its forms: __pipeline_memcpy_async, cuda::pipeline, cuda::barrier.
#pragma once
extern "C" {
void optiml_device_copy_async(void* to, const void* from, unsigned bytes, unsigned from_bytes);
void optiml_device_copy_commit();
void optiml_device_copy_wait(unsigned prior);
void optiml_device_copy_wait_all();
void optiml_device_copy_async_arrival(void* to, const void* from, unsigned bytes, void* arrival);
void optiml_device_arrival_init(void* where, unsigned expected);
unsigned long optiml_device_arrive(void* where, unsigned count, int drop);
int optiml_device_arrival_test(void* where, unsigned long token);
void optiml_device_arrival_wait(void* where, unsigned long token);
unsigned long optiml_device_arrival_phase(void* where);
}
OPTIML_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zero_filled = 0) {
  optiml_device_copy_async(to, from, (unsigned)bytes, (unsigned)(bytes - zero_filled));
}
OPTIML_INLINE void __pipeline_commit() { optiml_device_copy_commit(); }
OPTIML_INLINE void __pipeline_wait_prior(size_t prior) { optiml_device_copy_wait((unsigned)prior); }

namespace cuda {
namespace std {
using namespace ::std;
enum memory_order_t { memory_order_relaxed, memory_order_consume, memory_order_acquire, memory_order_release, memory_order_acq_rel, memory_order_seq_cst };
typedef memory_order_t memory_order;
}
using namespace std;
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

template <size_t A> struct aligned_size_t {
  static constexpr size_t align = A;
  size_t value;
  OPTIML_METHOD explicit constexpr aligned_size_t(size_t v) : value(v) {}
  OPTIML_METHOD constexpr operator size_t() const { return value; }
};

// In shared memory, set up by init(); no constructor, as the memory is not initialised.
template <thread_scope S = thread_scope_system> class alignas(8) barrier {
  unsigned long state;
 public:
  typedef unsigned long arrival_token;
  barrier() = default;
  OPTIML_METHOD void optiml_init(unsigned expected) { optiml_device_arrival_init(this, expected); }
  OPTIML_METHOD arrival_token arrive(ptrdiff_t n = 1) { return optiml_device_arrive(this, (unsigned)n, 0); }
  OPTIML_METHOD void wait(arrival_token token) { optiml_device_arrival_wait(this, token); }
  OPTIML_METHOD void arrive_and_wait() { wait(arrive()); }
  OPTIML_METHOD void arrive_and_drop() { optiml_device_arrive(this, 1, 1); }
  OPTIML_METHOD bool try_wait(arrival_token token) { return optiml_device_arrival_test(this, token); }
  OPTIML_METHOD void wait_parity(bool parity) {
    unsigned long phase = optiml_device_arrival_phase(this);
    if ((phase & 1) == parity) optiml_device_arrival_wait(this, phase);
  }
  OPTIML_METHOD bool try_wait_parity(bool parity) { return (optiml_device_arrival_phase(this) & 1) != parity; }
  template <thread_scope T> friend OPTIML_METHOD void init(barrier<T>* b, ptrdiff_t expected);
};
template <thread_scope S> OPTIML_METHOD void init(barrier<S>* b, ptrdiff_t expected) { b->optiml_init((unsigned)expected); }

// A pipeline of one thread: groups of copies in the order of their commits.
struct optiml_pipeline_state { unsigned long full[8], empty[8]; };
template <thread_scope S, unsigned char Stages> struct pipeline_shared_state { optiml_pipeline_state stages; };
enum class pipeline_role { producer, consumer };

template <thread_scope S> class pipeline {
  unsigned head = 0, tail = 0, stages = 0;
  optiml_pipeline_state* shared = nullptr;  // null: of this thread alone
 public:
  pipeline() = default;
  OPTIML_METHOD pipeline(optiml_pipeline_state* state, unsigned n) : stages(n), shared(state) {}
  OPTIML_METHOD void producer_acquire() {
    // A stage is free again when its consumers of the round before have released it.
    if (shared && head >= stages) optiml_device_arrival_wait(&shared->empty[head % stages], head / stages - 1);
  }
  OPTIML_METHOD void producer_commit() {
    optiml_device_copy_commit();
    head++;
  }
  OPTIML_METHOD void consumer_wait() {
    optiml_device_copy_wait(head - tail - 1);
    if (shared) {
      unsigned stage = tail % stages;
      optiml_device_arrival_wait(&shared->full[stage], optiml_device_arrive(&shared->full[stage], 1, 0));
    }
  }
  OPTIML_METHOD void consumer_release() {
    if (shared) optiml_device_arrive(&shared->empty[tail % stages], 1, 0);
    tail++;
  }
  OPTIML_METHOD bool quit() { return true; }
};
OPTIML_INLINE pipeline<thread_scope_thread> make_pipeline() { return {}; }
template <unsigned char N, thread_scope S> OPTIML_METHOD void pipeline_consumer_wait_prior(pipeline<S>&) { optiml_device_copy_wait(N); }
// All threads of the group are producers and consumers.
template <class Group, thread_scope S, unsigned char N>
OPTIML_METHOD pipeline<S> make_pipeline(const Group& group, pipeline_shared_state<S, N>* state) {
  static_assert(N <= 8, "the emulator's pipelines have at most 8 stages");
  if (group.thread_rank() == 0)
    for (unsigned i = 0; i < N; i++) {
      optiml_device_arrival_init(&state->stages.full[i], (unsigned)group.size());
      optiml_device_arrival_init(&state->stages.empty[i], (unsigned)group.size());
    }
  group.sync();
  return pipeline<S>(&state->stages, N);
}

// A group's copy: each thread takes every n-th piece of 16, 8 or 4 bytes.
struct optiml_alone {
  OPTIML_METHOD unsigned thread_rank() const { return 0; }
  OPTIML_METHOD unsigned size() const { return 1; }
};
template <class Group, class Issue>
OPTIML_METHOD void optiml_split(const Group& group, char* to, const char* from, size_t bytes, Issue issue) {
  size_t bits = (size_t)to | (size_t)from | bytes | 16, piece = bits & -bits;
  if (piece < 4) {  // no asynchronous form: copied at once
    for (size_t i = group.thread_rank(); i < bytes; i += group.size()) to[i] = from[i];
    return;
  }
  for (size_t i = piece * group.thread_rank(); i < bytes; i += piece * group.size()) issue(to + i, from + i, (unsigned)piece);
}
template <class Group> OPTIML_METHOD void optiml_copy_group(const Group& group, void* to, const void* from, size_t bytes) {
  optiml_split(group, (char*)to, (const char*)from, bytes, [](char* t, const char* f, unsigned n) { optiml_device_copy_async(t, f, n, n); });
}
template <class Group, class Size, thread_scope S>
OPTIML_METHOD void memcpy_async(const Group& group, void* to, const void* from, Size bytes, pipeline<S>&) {
  optiml_copy_group(group, to, from, (size_t)bytes);
}
template <class Size, thread_scope S>
OPTIML_METHOD void memcpy_async(void* to, const void* from, Size bytes, pipeline<S>&) { optiml_copy_group(optiml_alone(), to, from, (size_t)bytes); }
template <class Group, class Size, thread_scope S>
OPTIML_METHOD void memcpy_async(const Group& group, void* to, const void* from, Size bytes, barrier<S>& b) {
  optiml_split(group, (char*)to, (const char*)from, (size_t)bytes,
               [&](char* t, const char* f, unsigned n) { optiml_device_copy_async_arrival(t, f, n, &b); });
}
template <class Size, thread_scope S>
OPTIML_METHOD void memcpy_async(void* to, const void* from, Size bytes, barrier<S>& b) { memcpy_async(optiml_alone(), to, from, bytes, b); }
}
namespace nvcuda { namespace experimental { using ::cuda::pipeline; } }
