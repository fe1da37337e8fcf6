// interface.h - what the worker process calls to run a kernel in the emulator.
//
// The runtime is linked into the worker executable; the worker is linked with -rdynamic, so that a
// candidate's shared object finds the functions it may call (device_functions.h: optiml_device_*,
// and the __tsan_* hooks) in the executable. The functions declared here are the worker's own: they
// have hidden visibility, so a candidate cannot reach them even by name.
//
// Nothing here throws, allocates without a limit, or ends the process; one launch at a time, one thread.
#pragma once
#include <cstddef>
#include <cstdint>

#ifndef OPTIML_HIDDEN
#define OPTIML_HIDDEN __attribute__((visibility("hidden")))
#endif

extern "C" {

// ---- memory the kernel may touch ---------------------------------------------------------------

enum OptimlSpace : uint8_t {
  OPTIML_GLOBAL = 0,  // a buffer argument
  OPTIML_SHARED = 1,  // a static __shared__ array (dynamic shared memory is the runtime's own)
  OPTIML_MODULE = 2,  // a __device__ or __constant__ variable, or a constant table of the kernel
};

enum OptimlRangeFlag : uint8_t {
  OPTIML_READ_ONLY = 1,      // a store is a fault (__constant__ variables)
  OPTIML_UNINITIALISED = 2,  // reading an element that no thread has written is a fault (outputs)
};

// Fills bytes [offset, offset + bytes) of a buffer just before the first access to them.
typedef void (*OptimlFill)(int32_t buffer, uint64_t offset, uint64_t bytes, void* context);

struct OptimlRange {
  uintptr_t address;  // buffers: aligned to 256 bytes, as device allocations are, unless shifted on purpose
  uint64_t bytes;
  int32_t buffer;     // the worker's number for it, given back in sites and reports; >= 0
  uint8_t space;      // OptimlSpace
  uint8_t flags;      // OptimlRangeFlag
  uint16_t reserved;
  OptimlFill fill;    // null: the contents are there already. Otherwise called once per 64 KiB piece
  void* fill_context;
};

// Reserves address space: stacks for 8192 threads (512 MiB), the table of epochs (256 MiB) and
// `memory_bytes` (0: 4 GiB) for shadows. Private memory grows as it is used, by mprotect (never
// executable). 0, or -1. reset() does it with the default when it was not done.
OPTIML_HIDDEN int optiml_emulator_prepare(uint64_t memory_bytes);
// Forgets all ranges, sites, reports, statistics and output. Several launches may follow one reset;
// what earlier launches wrote then counts as initialised.
OPTIML_HIDDEN void optiml_emulator_reset(void);
// Returns 0, or -1 when the range overlaps another or is empty. Leave guard gaps between ranges:
// an access that is not inside one range is a fault, one that lands in a wrong range is not seen.
OPTIML_HIDDEN int optiml_emulator_add_range(const struct OptimlRange* range);

// ---- one launch ----------------------------------------------------------------------------------

// The candidate's entry point: calls the kernel with *(T*)arguments[i] for each parameter.
typedef void (*OptimlEntry)(void** arguments);

struct OptimlOptions {
  uint8_t lockstep;        // count requests, sectors and wavefronts per warp (implies warp lock-step)
  uint8_t races;           // race, missing-wait and initialisation checks (bounds are always checked)
  uint8_t initialisation;  // with races: uninitialised reads of shared memory and of OPTIML_UNINITIALISED ranges
  uint8_t poison;          // shared memory holds this byte when a block starts
  uint8_t traffic;         // with lockstep: distinct sectors per buffer (optiml_emulator_traffic) and reuse curves
  uint8_t warp_stride;     // of each block only every so many-th warp runs; 0 and 1: all. For counting only
  uint8_t reserved[2];
  uint64_t schedule;       // seed of the order of blocks and of warps; 0: the natural order
  uint64_t steps;          // limit on hooked accesses; 0: none
  uint64_t output_limit;   // bytes of printf output kept; 0: 64 KiB
  uint64_t shared_limit;   // bytes a block may have; 0: 48 KiB static, 227 KiB with dynamic
  uint64_t memory_limit;   // bytes the runtime may use for shadows and stacks; 0: 4 GiB
  const uint32_t* blocks;  // linear block numbers to run, or null for all
  uint64_t block_count;
};

enum OptimlStatus : int32_t {
  OPTIML_DONE = 0,           // ran to its end; look at the reports
  OPTIML_LAUNCH_REFUSED = 1, // a launch limit; one report says which
  OPTIML_STOPPED = 2,        // step limit, deadlock, failed assertion or __trap: buffers hold what was there
  OPTIML_NO_MEMORY = 3,      // memory_limit, or the system refused
};

OPTIML_HIDDEN int32_t optiml_emulator_launch(OptimlEntry entry, void** arguments, const uint32_t grid[3],
                                             const uint32_t block[3], uint64_t dynamic_shared,
                                             const struct OptimlOptions* options);

// ---- what it found. The arrays stay valid until the next reset or launch ----------------------------

enum OptimlKind : uint8_t { OPTIML_LOAD = 0, OPTIML_STORE = 1, OPTIML_ATOMIC = 2 };

// Entries of the reuse curves below: distances of at least 2^0 .. 2^19 lines, then first touches.
#define OPTIML_REUSE_CURVE 21

// One access site (a return address in the candidate's object) in one space, summed over a launch.
// Only with options.traffic: distinct_sectors, that no earlier request of the launch touched, and the
// curves: sectors, and requests with such a sector, whose last touch in the block lies that far back.
struct OptimlSite {
  uint64_t pc;
  uint8_t kind, space, size, reserved;
  int32_t buffer;  // -1: several
  uint64_t requests, lanes, bytes, sectors, ideal_sectors, wavefronts, ideal_wavefronts, max_degree, same_address;
  uint64_t lines;  // distinct 128-byte lines of each request, summed
  uint64_t distinct_sectors;
  uint64_t other_warp;  // requests for a line that another warp of the block touched last
  uint64_t sector_reuse[OPTIML_REUSE_CURVE], request_reuse[OPTIML_REUSE_CURVE];
};

enum OptimlWhat : uint32_t {
  OPTIML_OUT_OF_BOUNDS = 1,
  OPTIML_RACE_WRITE_WRITE = 2,
  OPTIML_RACE_READ_WRITE = 3,
  OPTIML_DIVERGENT_BARRIER = 4,  // pc and pc2: two barriers that threads of one block wait at
  OPTIML_DEADLOCK = 5,
  OPTIML_UNINITIALISED_READ = 6,
  OPTIML_MISALIGNED = 7,
  OPTIML_BAD_WARP_MASK = 8,       // detail: the mask
  OPTIML_INACTIVE_SOURCE = 9,     // detail: the source lane
  OPTIML_STEP_LIMIT = 10,
  OPTIML_RACE_SAME_INSTRUCTION = 11,  // two lanes of one warp store to one address at once
  OPTIML_RACE_IN_WARP = 12,
  OPTIML_MISSING_WAIT = 13,       // an asynchronous copy's destination touched before its wait
  OPTIML_ASSERTION = 14,          // detail: the line
  OPTIML_LAUNCH_LIMIT = 15,       // address: the value asked for, detail: the limit, size: OptimlLimit
  OPTIML_LOCAL_INDEX = 16,        // a fixed-size array indexed outside; detail: the index, pc2: the line
  OPTIML_READ_ONLY_WRITE = 17,
  OPTIML_TRAP = 18,
  OPTIML_STACK_OVERFLOW = 19,
  OPTIML_UNDEFINED_NUMBER = 20,   // a cast or a shift whose result the language leaves open; detail: 1 cast, 2 shift
};

enum OptimlLimit : uint32_t { OPTIML_LIMIT_THREADS = 1, OPTIML_LIMIT_BLOCK_AXIS = 2, OPTIML_LIMIT_GRID_AXIS = 3,
                              OPTIML_LIMIT_SHARED = 4, OPTIML_LIMIT_COOPERATIVE = 5, OPTIML_LIMIT_EMPTY = 6 };

struct OptimlReport {
  uint32_t what, count;
  uint64_t pc, pc2;         // pc2: the other access of a race; 0: none
  uint64_t address;
  int64_t detail;           // out of bounds: bytes past the end (>= 0) or before the start (< 0) of `buffer`
  int32_t buffer;           // the buffer it concerns or lies nearest to; -1: none
  uint32_t size;            // bytes of the access
  uint32_t kind, space;     // of the access
  uint32_t thread, block;   // linear numbers; the first thread that did it
  uint32_t thread2, block2;
};

struct OptimlStatistics {
  uint64_t accesses;          // hooked accesses outside the stack
  uint64_t warp_steps;        // warp-wide requests
  uint64_t divergent_steps;   // of those, without all unfinished lanes of the warp
  uint64_t switches, barriers, collectives, local_accesses, threads, blocks;
  uint64_t shadow_bytes, output_bytes, output_dropped;
  uint64_t longest_warp;      // requests of the warp that made the most
  uint64_t longest_in_block;  // the same for each block, summed over blocks
};

// Distinct 32-byte sectors of one buffer (options.traffic): over the launch, and summed over blocks.
struct OptimlTraffic {
  int32_t buffer;
  uint8_t space;
  uint8_t reserved[3];
  uint64_t sectors_read, sectors_written, block_sectors_read, block_sectors_written;
};

OPTIML_HIDDEN uint64_t optiml_emulator_sites(const struct OptimlSite** sites);
OPTIML_HIDDEN uint64_t optiml_emulator_reports(const struct OptimlReport** reports);
OPTIML_HIDDEN uint64_t optiml_emulator_traffic(const struct OptimlTraffic** traffic);
OPTIML_HIDDEN void optiml_emulator_statistics(struct OptimlStatistics* statistics);
// What printf wrote, not terminated; bytes past output_limit are counted in output_dropped.
OPTIML_HIDDEN uint64_t optiml_emulator_output(const char** text);
}

static_assert(sizeof(OptimlSite) == 448);
static_assert(sizeof(OptimlReport) == 72);
static_assert(sizeof(OptimlStatistics) == 112);
static_assert(sizeof(OptimlTraffic) == 40);
