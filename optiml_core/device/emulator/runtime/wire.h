// wire.h - what parent and worker say to each other through the arena.
//
// The arena is one memory file that both map. Its first bytes hold the tables below, the rest holds
// the buffers. A byte on a pipe says "a request lies there", a byte back says "the reply lies there".
// The worker runs foreign code, so the parent treats every reply as data: sizes are checked, values
// are never used as positions without a check. worker_wire.py mirrors these structs; a test compares
// the sizes.
#pragma once
#include <cstdint>

#include "interface.h"

#define OPTIML_WIRE_VERSION 1u

// Positions in the arena, in bytes.
#define OPTIML_REQUEST_TABLES 4096u
#define OPTIML_REPLY (1u << 20)
#define OPTIML_REPLY_TABLES (OPTIML_REPLY + 4096u)
#define OPTIML_PAYLOAD (4u << 20)

enum OptimlOrigin : uint8_t {
  OPTIML_IN_ARENA = 0,    // an offset into the arena
  OPTIML_IN_MODULE = 1,   // an offset into the loaded object
  OPTIML_IN_RESERVED = 2, // an offset into the reserved area (sampled runs)
};

// One kernel parameter: its bytes at `value_offset` in the arena, or the address of `value_offset` in `origin`.
struct OptimlWireParameter {
  uint64_t value_offset;
  uint8_t is_pointer, origin;
  uint8_t reserved[6];
};

struct OptimlWireRange {
  uint64_t offset, bytes;
  int32_t buffer;
  uint8_t origin, space, flags, reserved;
};

// Bytes copied between the arena and a module variable: before the launch in, after it out.
struct OptimlWireCopy {
  uint64_t module_offset, arena_offset, bytes;
};

// One piece of the reserved area, mapped before the candidate runs. `tile_bytes` 0: zeros without a file;
// otherwise bytes [tile_offset, tile_offset + tile_bytes) of the tile file, over and over, copy-on-write.
struct OptimlWireReserved {
  uint64_t offset, bytes, tile_offset, tile_bytes;
};

struct OptimlWireRequest {
  uint32_t version, sequence;
  uint32_t grid[3], block[3];
  uint64_t dynamic_shared;
  uint8_t lockstep, races, initialisation, poison, traffic, warp_stride;
  uint8_t reserved[2];
  uint64_t schedule, steps, output_limit, shared_limit, memory_limit;
  uint64_t parameter_count, range_count, fill_count, read_back_count, block_count, reserved_count;
  // Positions of the tables in the arena: OptimlWireParameter[], OptimlWireRange[], OptimlWireCopy[] (into the
  // module), OptimlWireCopy[] (out of it), uint32_t[], OptimlWireReserved[].
  uint64_t parameters, ranges, fills, read_backs, blocks, reserved_pieces;
  uint64_t reserved_bytes;  // address space to reserve beside the arena
  // Where the object's functions start, as offsets into it: uint32_t[]. Read once, before the object runs.
  uint64_t function_count, functions;
};

enum OptimlWireState : uint32_t {
  OPTIML_STATE_NONE = 0,
  OPTIML_STATE_READY = 1,        // loaded and fenced in, waits for requests
  OPTIML_STATE_RAN = 2,          // `status` holds what the launch returned
  OPTIML_STATE_CRASHED = 3,      // a signal; the process ends
  OPTIML_STATE_NOT_LOADED = 4,   // the object could not be loaded; text says why
  OPTIML_STATE_NO_SANDBOX = 5,   // the filter could not be installed
  OPTIML_STATE_BAD_REQUEST = 6,
  OPTIML_STATE_REFUSED_CALL = 7,  // an indirect call to something that is no function of the object; the process ends
};

struct OptimlWireReply {
  uint32_t version, state, sequence;
  int32_t status;  // OptimlStatus
  uint32_t signal;
  uint32_t crashed_in_candidate;
  uint64_t crash_pc, crash_address, crash_stack;  // program counter, address touched, stack pointer
  uint64_t module_base;
  uint64_t cpu_nanoseconds;
  // How many there were, and how many of them the tables hold.
  uint64_t site_total, report_total, traffic_total;
  uint64_t site_count, report_count, traffic_count, text_bytes;
  uint64_t sites, reports, traffic, text;
  struct OptimlStatistics statistics;
};
