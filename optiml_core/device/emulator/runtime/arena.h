// arena.h - all memory of a launch comes from address space reserved once, so that a running launch
// makes no system call (the worker's sandbox forbids them) and has one limit.
#pragma once
#include <sys/mman.h>

#include "state.h"

struct Arena {
  char* base; size_t used, dirty, capacity, limit;  // dirty: bytes that are not known to be zero
};
static Arena A;

constexpr size_t EPOCHS = 64u << 20;
constexpr uint64_t DEFAULT_MEMORY = 4ull << 30;

static void* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

extern "C" int optiml_emulator_prepare(uint64_t memory_bytes) {
  if (A.base) return 0;
  if (!memory_bytes) memory_bytes = DEFAULT_MEMORY;
  A.base = (char*)reserve(memory_bytes);
  E.stack_bytes = STACK_BYTES * (MAX_RESIDENT_THREADS + 1);
  E.stack_low = (uintptr_t)reserve(E.stack_bytes);
  E.block_of_epoch = (uint32_t*)reserve(EPOCHS * sizeof(uint32_t));
  if (!A.base || !E.stack_low || !E.block_of_epoch) return -1;
  A.capacity = memory_bytes;
  // One page that cannot be touched below each stack; candidates are compiled to probe every page.
  for (size_t i = 0; i <= MAX_RESIDENT_THREADS; i++)
    if (mprotect((void*)(E.stack_low + i * STACK_BYTES), 4096, PROT_NONE)) return -1;
  E.reports.reserve(256); E.sites.reserve(1 << 15); E.site_table.assign(1 << 16, -1); E.ranges.reserve(4096);
  E.traffic.reserve(4096); E.output.reserve(1 << 20);
  return 0;
}

static void arena_reset() {
  A.dirty = std::max(A.dirty, A.used);
  A.used = 0;
}

// Zeroed memory, or null when the limit is reached.
static void* arena_take(size_t bytes) {
  bytes = (bytes + 63) & ~(size_t)63;
  size_t limit = A.limit ? std::min(A.limit, A.capacity) : A.capacity;
  if (bytes > limit || A.used > limit - bytes) { E.out_of_memory = true; return nullptr; }
  char* p = A.base + A.used;
  if (A.used < A.dirty) memset(p, 0, std::min(bytes, A.dirty - A.used));
  A.used += bytes;
  E.statistics.shadow_bytes = std::max<uint64_t>(E.statistics.shadow_bytes, A.used);
  return p;
}
template <class T> static T* arena_array(size_t n) { return (T*)arena_take(n * sizeof(T)); }
