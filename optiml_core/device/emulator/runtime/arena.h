// arena.h - all memory of a launch comes from address space reserved once: one limit for all of it,
// and a running launch makes no system call but mprotect (never with PROT_EXEC).
#pragma once
#include <sys/mman.h>

#include "state.h"

// Address space that is opened for use piece by piece, so that limits see only what is used.
struct Reserved {
  char* base; size_t open, capacity;
  bool reserve(size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base = p == MAP_FAILED ? nullptr : (char*)p;
    capacity = bytes;
    return base;
  }
  bool need(size_t bytes, size_t step) {
    if (bytes <= open) return true;
    if (bytes > capacity) return false;
    size_t until = std::min(capacity, (bytes + step - 1) / step * step);
    if (mprotect(base + open, until - open, PROT_READ | PROT_WRITE)) return false;
    open = until;
    return true;
  }
};
struct Arena { Reserved area; size_t used, dirty, limit; };  // dirty: bytes that are not known to be zero
static Arena A;
static Reserved epochs, stacks;

constexpr size_t EPOCHS = 64u << 20;
constexpr uint64_t DEFAULT_MEMORY = 4ull << 30;

extern "C" int optiml_emulator_prepare(uint64_t memory_bytes) {
  if (A.area.base) return 0;
  if (!memory_bytes) memory_bytes = DEFAULT_MEMORY;
  if (!A.area.reserve(memory_bytes) || !epochs.reserve(EPOCHS * sizeof(uint32_t)) ||
      !stacks.reserve(STACK_BYTES * MAX_RESIDENT_THREADS)) return -1;
  E.block_of_epoch = (uint32_t*)epochs.base;
  E.stack_low = (uintptr_t)stacks.base; E.stack_bytes = stacks.capacity;
  E.reports.reserve(256); E.sites.reserve(4096); E.site_table.assign(1 << 16, -1); E.ranges.reserve(4096);
  E.traffic.reserve(256); E.free_stacks.reserve(MAX_RESIDENT_THREADS / 32); E.output.reserve(1 << 20);
  return 0;
}

// Stacks for `threads` threads. The lowest page of each is never opened; candidates are compiled to
// probe every page of a frame, so that a stack that is too deep ends in a fault and not in its neighbour.
static bool prepare_stacks(size_t threads) {
  if (threads > MAX_RESIDENT_THREADS) return false;
  for (size_t i = stacks.open / STACK_BYTES; i < threads; i++) {
    if (mprotect(stacks.base + i * STACK_BYTES + 4096, STACK_BYTES - 4096, PROT_READ | PROT_WRITE)) return false;
    stacks.open = (i + 1) * STACK_BYTES;
  }
  return true;
}

static void arena_reset() {
  A.dirty = std::max(A.dirty, A.used);
  A.used = 0;
}

// Zeroed memory, or null when the limit is reached.
static void* arena_take(size_t bytes) {
  bytes = (bytes + 63) & ~(size_t)63;
  size_t limit = A.limit ? std::min(A.limit, A.area.capacity) : A.area.capacity;
  if (bytes > limit || A.used > limit - bytes || !A.area.need(A.used + bytes, 4 << 20)) { E.out_of_memory = true; return nullptr; }
  char* p = A.area.base + A.used;
  if (A.used < A.dirty) memset(p, 0, std::min(bytes, A.dirty - A.used));
  A.used += bytes;
  E.statistics.shadow_bytes = std::max<uint64_t>(E.statistics.shadow_bytes, A.used);
  return p;
}
template <class T> static T* arena_array(size_t n) { return (T*)arena_take(n * sizeof(T)); }
