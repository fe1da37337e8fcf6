// state.h - the emulator's own state: lanes (CUDA threads as fibers), warps, ranges, shadow cells.
// The runtime is one translation unit (runtime.cpp includes the parts), so that the hooks inline.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <vector>

#include "interface.h"

struct Vector3 { uint32_t x, y, z; };
struct Bits { uint64_t low, high; };  // a value of up to 16 bytes that travels through a warp collective

enum LaneState : uint8_t { RUNNING, AT_ACCESS, AT_COLLECTIVE, AT_BARRIER, FINISHED };

enum Collective : uint8_t { SYNC, SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, ANY, ALL, BALLOT, ACTIVE_MASK,
                            REDUCE_ADD, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR, REDUCE_XOR, REDUCE_UMIN, REDUCE_UMAX,
                            MATCH_ANY, MATCH_ALL };

enum BarrierKind : uint8_t { BARRIER_COUNT, BARRIER_AND, BARRIER_OR, BARRIER_PLAIN };

struct Lane {
  void* stack_pointer;
  LaneState state;
  uint8_t kind, size, operation, number;  // number: in the warp
  uint16_t site, warp_sync;
  uintptr_t pc, address, depth;
  uint32_t mask; int32_t argument, width;
  Bits value, result;
  uint32_t thread;
  Vector3 index;
  char* stack_top;
};

struct Warp { uint32_t first, lanes, runnable, slice; };

// What the race checker remembers of 4 bytes.
struct Cell {
  uint32_t writer, write_epoch, reader1, read_epoch, reader2;
  uint16_t write_site, read_site, write_sync, read_sync1, read_sync2;
  uint8_t write_mask, read_mask, write_atomic, written;
};

struct Range {
  uintptr_t low, high;
  int32_t buffer;
  uint8_t space, flags;
  Cell* cells;
};

struct Emulator {
  Lane* current; Warp* warp; void* scheduler;
  uintptr_t stack_low, stack_bytes;
  char* stacks; size_t stack_count;
  std::vector<Lane> lanes; std::vector<Warp> warps; std::vector<Range> ranges;
  Range* last;
  Vector3 grid, block, block_index;
  uint32_t thread_count, block_number, epoch, launch_epoch;
  OptimlEntry entry; void** arguments;
  OptimlOptions options;
  std::vector<OptimlSite> sites; std::vector<int32_t> site_table;
  std::vector<OptimlReport> reports;
  std::vector<OptimlTraffic> traffic;
  std::vector<char> output;
  OptimlStatistics statistics;
  bool stopped;
};
static Emulator E;

// Dynamic shared memory of the running block: a symbol that a candidate's extern arrays resolve to.
extern "C" { alignas(256) char optiml_dynamic_shared[1 << 20]; }

constexpr size_t STACK_BYTES = 64 << 10;
constexpr size_t STACK_STAGGER = 64 * 7;  // keeps the tops of the fibers' stacks off one cache set
constexpr uint32_t NOBODY = ~0u;

static OptimlReport* report(OptimlWhat what, uint64_t pc, uint64_t pc2, uint64_t address, uint32_t thread, uint32_t block) {
  for (auto& r : E.reports)
    if (r.what == what && r.pc == pc && r.pc2 == pc2) { r.count++; return nullptr; }
  if (E.reports.size() >= 256) return nullptr;
  OptimlReport r{};
  r.what = what; r.count = 1; r.pc = pc; r.pc2 = pc2; r.address = address; r.thread = thread; r.block = block; r.buffer = -1;
  E.reports.push_back(r);
  return &E.reports.back();
}
