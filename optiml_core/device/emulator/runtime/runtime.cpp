// runtime.cpp - the emulator's runtime, one translation unit. Built without instrumentation.
#include "hooks.h"

extern "C" void optiml_emulator_reset() {
  for (auto& r : E.ranges) free(r.cells);
  E.ranges.clear(); E.last = nullptr;
  E.sites.clear(); E.sites.reserve(4096); E.site_table.assign(1 << 14, -1);
  E.reports.clear(); E.reports.reserve(256); E.traffic.clear(); E.output.clear();
  E.statistics = {};
}

static Cell* new_cells(const Range& r) {
  size_t n = (r.high - r.low + 7) / 4 + 1;
  Cell* cells = (Cell*)calloc(n, sizeof(Cell));
  for (size_t i = 0; cells && i < n; i++) cells[i].writer = cells[i].reader1 = cells[i].reader2 = NOBODY;
  E.statistics.shadow_bytes += n * sizeof(Cell);
  return cells;
}

extern "C" int optiml_emulator_add_range(const OptimlRange* range) {
  if (!range->bytes || range->address + range->bytes < range->address) return -1;
  for (auto& r : E.ranges) if (range->address < r.high && r.low < range->address + range->bytes) return -1;
  E.ranges.push_back({range->address, range->address + range->bytes, range->buffer, range->space, range->flags, nullptr});
  E.last = nullptr;
  return 0;
}

static bool refuse(OptimlLimit limit, uint64_t value, uint64_t allowed) {
  if (auto* r = report(OPTIML_LAUNCH_LIMIT, 0, 0, value, 0, 0)) { r->size = limit; r->detail = (int64_t)allowed; }
  return true;
}

static bool over_a_limit(const uint32_t grid[3], const uint32_t block[3], uint64_t dynamic) {
  static const uint32_t block_limits[3] = {1024, 1024, 64}, grid_limits[3] = {2147483647u, 65535u, 65535u};
  for (int k = 0; k < 3; k++) {
    if (!grid[k] || !block[k]) return refuse(OPTIML_LIMIT_EMPTY, 0, 1);
    if (block[k] > block_limits[k]) return refuse(OPTIML_LIMIT_BLOCK_AXIS, block[k], block_limits[k]);
    if (grid[k] > grid_limits[k]) return refuse(OPTIML_LIMIT_GRID_AXIS, grid[k], grid_limits[k]);
  }
  uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (threads > 1024) return refuse(OPTIML_LIMIT_THREADS, threads, 1024);
  uint64_t shared = dynamic;
  for (auto& r : E.ranges) if (r.space == OPTIML_SHARED) shared += r.high - r.low;
  uint64_t limit = E.options.shared_limit ? E.options.shared_limit : 227 << 10;
  return shared > limit && refuse(OPTIML_LIMIT_SHARED, shared, limit);
}

static bool prepare_stacks() {
  if (E.thread_count <= E.stack_count) return true;
  if (E.stacks) munmap(E.stacks, STACK_BYTES * E.stack_count);
  void* p = mmap(nullptr, STACK_BYTES * E.thread_count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) { E.stacks = nullptr; E.stack_count = 0; return false; }
  E.stacks = (char*)p; E.stack_count = E.thread_count;
  E.stack_low = (uintptr_t)p; E.stack_bytes = STACK_BYTES * E.thread_count;
  return true;
}

static bool run_blocks(uint32_t warps) {
  std::vector<uint32_t> blocks, warp_order;
  uint64_t total = (uint64_t)E.grid.x * E.grid.y * E.grid.z;
  if (E.options.blocks) blocks.assign(E.options.blocks, E.options.blocks + E.options.block_count);
  else for (uint64_t b = 0; b < total; b++) blocks.push_back((uint32_t)b);
  for (uint32_t w = 0; w < warps; w++) warp_order.push_back(w);
  uint64_t random = E.options.schedule;
  if (random) permute(blocks, random);
  for (uint32_t b : blocks) {
    if (b >= total) continue;
    E.block_index = {b % E.grid.x, b / E.grid.x % E.grid.y, b / E.grid.x / E.grid.y};
    E.block_number = b;
    ++E.epoch;
    for (auto& r : E.ranges)
      if (r.space == OPTIML_SHARED) {
        memset((void*)r.low, E.options.poison, r.high - r.low);
        if (r.cells) for (size_t i = 0; i <= (r.high - r.low + 3) / 4; i++) r.cells[i].written = 0;
      }
    if (E.options.schedule) permute(warp_order, random);
    if (E.options.traffic) reuse_start_block();
    start_block(warps);
    E.statistics.blocks++;
    E.statistics.threads += E.thread_count;
    if (!run_block(warp_order)) return false;
  }
  return true;
}

extern "C" int32_t optiml_emulator_launch(OptimlEntry entry, void** arguments, const uint32_t grid[3],
                                          const uint32_t block[3], uint64_t dynamic_shared, const OptimlOptions* options) {
  E.entry = entry; E.arguments = arguments; E.options = *options; E.stopped = false;
  if (!E.options.steps) E.options.steps = ~0ull;
  if (over_a_limit(grid, block, dynamic_shared)) return OPTIML_LAUNCH_REFUSED;
  E.grid = {grid[0], grid[1], grid[2]}; E.block = {block[0], block[1], block[2]};
  E.thread_count = block[0] * block[1] * block[2];
  if (!prepare_stacks()) return OPTIML_NO_MEMORY;
  if (dynamic_shared > sizeof optiml_dynamic_shared) return OPTIML_NO_MEMORY;
  uintptr_t dynamic = (uintptr_t)optiml_dynamic_shared;
  if (dynamic_shared) E.ranges.push_back({dynamic, dynamic + dynamic_shared, -2, OPTIML_SHARED, 0, nullptr});
  E.last = nullptr;
  if (E.options.races) for (auto& r : E.ranges) if (!r.cells && !(r.cells = new_cells(r))) return OPTIML_NO_MEMORY;
  uint32_t warps = (E.thread_count + 31) / 32;
  E.lanes.assign(E.thread_count, Lane{});
  E.warps.assign(warps, Warp{});
  E.launch_epoch = ++E.epoch;
  if (E.options.traffic) reuse_start_launch();
  bool ended = run_blocks(warps);
  E.current = nullptr;
  if (dynamic_shared) { free(E.ranges.back().cells); E.ranges.pop_back(); E.last = nullptr; }
  return ended ? OPTIML_DONE : OPTIML_STOPPED;
}

extern "C" uint64_t optiml_emulator_sites(const OptimlSite** p) { *p = E.sites.data(); return E.sites.size(); }
extern "C" uint64_t optiml_emulator_reports(const OptimlReport** p) { *p = E.reports.data(); return E.reports.size(); }
extern "C" uint64_t optiml_emulator_traffic(const OptimlTraffic** p) { *p = E.traffic.data(); return E.traffic.size(); }
extern "C" void optiml_emulator_statistics(OptimlStatistics* s) { *s = E.statistics; }
extern "C" uint64_t optiml_emulator_output(const char** p) { *p = E.output.data(); return E.output.size(); }
