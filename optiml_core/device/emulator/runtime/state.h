// state.h - the emulator's own state: lanes (CUDA threads as fibers), warps, blocks, ranges.
// The runtime is one translation unit (runtime.cpp includes the parts), so that the hooks inline.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "interface.h"

struct Vector3 { uint32_t x, y, z; };
struct Bits { uint64_t low, high; };  // a value of up to 16 bytes that travels through a warp collective

enum Collective : uint8_t { SYNC, SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, ANY, ALL, BALLOT, ACTIVE_MASK,
                            REDUCE_ADD, REDUCE_MIN, REDUCE_MAX, REDUCE_AND, REDUCE_OR, REDUCE_XOR, REDUCE_UMIN, REDUCE_UMAX,
                            MATCH_ANY, MATCH_ALL, MATRIX };
enum BarrierKind : uint8_t { BARRIER_COUNT, BARRIER_AND, BARRIER_OR, BARRIER_PLAIN, BARRIER_GRID };

struct Warp;
struct Block;
struct Known;    // what a lane has acquired from others (knowledge.h)
struct Copies;   // asynchronous copies under way (async_copies.h)
struct Arrival;  // a cuda::barrier (async_copies.h)

struct Lane {
  void* stack_pointer;
  Warp* warp;
  uint32_t thread;                 // linear number in the block
  uint32_t clock;                  // counts this lane's synchronisations since the block barrier, from 1
  uint8_t number, operation, dirty;  // number in the warp; dirty: stored to global memory since the last fence
  uint32_t mask; int32_t argument, width;
  uintptr_t pc;                    // of the collective or barrier
  Bits value, result;
  uint32_t fence_stamp, fence_epoch, fence_bound;  // what the last fence covers
  const Known* known;
  Copies* copies;
  Arrival* waits_for; uint64_t phase;
  Vector3 index;
  char* stack_top;
};

constexpr uint32_t CLOCK_BITS = 22, CLOCK_MASK = (1u << CLOCK_BITS) - 1;

struct Warp {
  Block* block;
  Lane* lanes;
  uint32_t count, all;             // lanes; the mask of all of them
  uint32_t finished, at_access, at_collective, at_barrier, at_wait, yielded, runnable;
  uint32_t steps, spins, quantum, requests;
  uint32_t counting_up;            // lanes whose atomic adds a constant one
  uint16_t stacks; bool fresh;       // which 32 stacks it has; it has not run yet
  uintptr_t pc[32], address[32];   // of the access each lane stands at
  uint32_t depth[32];
  uint16_t site[32];
  uint32_t (*clocks)[32];          // clocks[i][j]: what lane i knows of lane j's clock
  uint32_t unfinished() const { return all & ~finished; }
};

// What the race checker remembers of 1, 2 or 4 bytes. An epoch is one barrier interval of one block,
// numbered over all blocks; a stamp is thread << CLOCK_BITS | clock; epoch 0 is never.
struct Cell {
  uint32_t write_epoch, write_stamp;
  uint32_t read_epoch, read1, read2;  // two lanes of one warp: the first and the latest
  uint32_t far_epoch, far;            // a reader in another warp or block
  uint16_t write_site, read_site, far_site;
};
struct AtomicCell { uint32_t epoch, stamp; uint16_t site; };
constexpr uint16_t MEETING = 0xFFFF;  // the site of a lane that stops behind an inner loop
constexpr uint16_t PENDING = 0x8000;  // in write_site: an asynchronous copy has not landed yet

struct CellArray {
  Cell* cells;
  AtomicCell* atomics;  // null until the first atomic
  uint32_t shift;       // bytes of a cell: 1 << shift
};

struct Range {
  uintptr_t low, high, base;  // base: low rounded down to 16
  int32_t buffer;
  uint8_t space, flags;
  int16_t shared_number;      // of a shared range: which of the block's cell arrays
  CellArray shadow;           // of a shared range: those of the running block
  OptimlFill fill; void* fill_context; uint8_t* filled;
  uint32_t *read_by, *written_by;  // per sector: 1 + the last block that touched it
  OptimlTraffic traffic;
};

struct Block {
  uint32_t number, epoch, first_epoch, published;  // published: epochs up to it are covered by fences
  Vector3 index;
  uint32_t warp_count, finished, longest;  // longest: requests of its longest warp
  Lane* lanes; Warp* warps; uint32_t* order;
  enum : uint8_t { READY, AT_GRID, DONE } state;
  CellArray* shared_shadow;
  char* shared_bytes;  // its shared memory while another block runs
  Arrival* arrivals;
  uint64_t strong_accesses;
};

// One access site as the hooks look it up: the range it last touched.
struct Slot { uintptr_t pc; Range* range; uint32_t site; };
constexpr uint32_t SLOTS = 4096;

struct SyncObject;

struct Emulator {
  Lane* current; Warp* warp; Block* block;
  uintptr_t stack_low, stack_bytes;
  uint64_t step_limit;
  uint8_t lockstep, races, initialisation, reverse;
  uint32_t epoch, grid_epoch, next_epoch;  // of the running block; older ones are all ordered; the next to give out
  uint32_t* block_of_epoch;
  OptimlStatistics statistics;
  Slot slots[SLOTS];

  void* scheduler;
  std::vector<Range> ranges;
  Vector3 grid, dim;
  uint32_t thread_count, warp_count, fences;
  uint64_t random, dynamic_shared;
  OptimlEntry entry; void** arguments;
  OptimlOptions options;
  std::vector<OptimlSite> sites; std::vector<int32_t> site_table;
  std::vector<OptimlReport> reports;
  std::vector<OptimlTraffic> traffic;
  std::vector<char> output;
  std::vector<uint16_t> free_stacks; uint32_t stacks_made;
  SyncObject** sync_table; uint32_t sync_count;
  bool stopped, out_of_memory;
};
static Emulator E;

// Dynamic shared memory of the running block: a symbol that a candidate's extern arrays resolve to.
extern "C" { alignas(256) char optiml_dynamic_shared[1 << 20]; }

constexpr size_t STACK_BYTES = 64 << 10;
constexpr size_t STACK_STAGGER = 64 * 7;  // keeps the tops of the fibers' stacks off one cache set
constexpr uint32_t MAX_RESIDENT_THREADS = 8192;

static OptimlReport* report(OptimlWhat what, uint64_t pc, uint64_t pc2, uint64_t address, uint32_t thread, uint32_t block) {
  for (auto& r : E.reports)
    if (r.what == what && r.pc == pc && r.pc2 == pc2) { r.count++; return nullptr; }
  if (E.reports.size() >= 256) return nullptr;
  OptimlReport r{};
  r.what = what; r.count = 1; r.pc = pc; r.pc2 = pc2; r.address = address; r.thread = thread; r.block = block; r.buffer = -1;
  E.reports.push_back(r);
  return &E.reports.back();
}
static OptimlReport* report_here(OptimlWhat what, uint64_t pc, uint64_t pc2 = 0, uint64_t address = 0) {
  return report(what, pc, pc2, address, E.current->thread, E.block->number);
}

static inline void end_lane [[noreturn]] (Lane* lane);
static inline void stop_launch [[noreturn]] (Lane* lane);
