// runtime.cpp - the emulator's runtime, one translation unit: the worker's side of it. Built
// without instrumentation.
#include "maths.h"
#include "matrix.h"

static void forget_launch() {
  E.sites.clear();
  std::fill(E.site_table.begin(), E.site_table.end(), -1);
  E.reports.clear(); E.traffic.clear(); E.output.clear();
  E.statistics = {};
  E.sync_table = nullptr; E.sync_count = E.fences = 0;
  E.stopped = E.out_of_memory = false;
  E.free_stacks.clear(); E.stacks_made = 0;
  E.current = nullptr; E.warp = nullptr; E.block = nullptr;
  static Range nowhere{1, 0, 0, -1, 0, 0, 0, {}, nullptr, nullptr, nullptr, nullptr, nullptr, {}};
  for (auto& slot : E.slots) slot = {0, &nowhere, 0};
}

extern "C" void optiml_emulator_reset() {
  optiml_emulator_prepare(DEFAULT_MEMORY);
  arena_reset();
  E.ranges.clear();
  E.next_epoch = 1;
  forget_launch();
}

static void insert_range(Range r) {
  auto at = std::upper_bound(E.ranges.begin(), E.ranges.end(), r, [](const Range& a, const Range& b) { return a.low < b.low; });
  E.ranges.insert(at, r);
}

extern "C" int optiml_emulator_add_range(const OptimlRange* range) {
  if (!range->bytes || range->address + range->bytes < range->address) return -1;
  for (auto& r : E.ranges) if (range->address < r.high && r.low < range->address + range->bytes) return -1;
  Range r{};
  r.low = range->address; r.high = r.low + range->bytes; r.base = r.low & ~(uintptr_t)15;
  r.buffer = range->buffer; r.space = range->space; r.flags = range->flags;
  if (range->fill) {
    r.fill = range->fill; r.fill_context = range->fill_context;
    if (!(r.filled = arena_array<uint8_t>(range->bytes / PIECE + 1))) return -1;
  }
  insert_range(r);
  return 0;
}

static bool refuse(OptimlLimit limit, uint64_t value, uint64_t allowed) {
  if (auto* r = report(OPTIML_LAUNCH_LIMIT, 0, 0, value, 0, 0)) { r->size = limit; r->detail = (int64_t)allowed; }
  return true;
}

// The limits of compute capability 7.5 to 12.x (CUDA C++ Programming Guide, technical specifications).
static bool over_a_limit(const uint32_t grid[3], const uint32_t block[3], uint64_t dynamic) {
  static const uint32_t block_limits[3] = {1024, 1024, 64}, grid_limits[3] = {2147483647u, 65535u, 65535u};
  for (int k = 0; k < 3; k++) {
    if (!grid[k] || !block[k]) return refuse(OPTIML_LIMIT_EMPTY, 0, 1);
    if (block[k] > block_limits[k]) return refuse(OPTIML_LIMIT_BLOCK_AXIS, block[k], block_limits[k]);
    if (grid[k] > grid_limits[k]) return refuse(OPTIML_LIMIT_GRID_AXIS, grid[k], grid_limits[k]);
  }
  uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (threads > 1024) return refuse(OPTIML_LIMIT_THREADS, threads, 1024);
  uint64_t fixed = 0;
  for (auto& r : E.ranges) if (r.space == OPTIML_SHARED) fixed += r.high - r.low;
  uint64_t fixed_limit = E.options.shared_limit ? E.options.shared_limit : 48 << 10;
  if (fixed > fixed_limit) return refuse(OPTIML_LIMIT_SHARED, fixed, fixed_limit);
  uint64_t limit = E.options.shared_limit ? E.options.shared_limit : 227 << 10;
  return fixed + dynamic > limit && refuse(OPTIML_LIMIT_SHARED, fixed + dynamic, limit);
}

// Shadow cells and sector marks of every range that needs them.
static bool prepare_ranges() {
  int16_t shared = 0;
  for (auto& r : E.ranges) {
    if (r.space == OPTIML_SHARED) { r.shared_number = shared++; continue; }
    if (E.races && !r.shadow.cells && !new_cells(r.shadow, r.high - r.base, 2)) return false;
    if (!E.options.traffic) continue;
    size_t sectors = ((r.high - 1) >> 5) - (r.low >> 5) + 1;
    r.traffic = {};
    r.traffic.buffer = r.buffer; r.traffic.space = r.space;
    if (!(r.read_by = arena_array<uint32_t>(sectors)) || !(r.written_by = arena_array<uint32_t>(sectors))) return false;
  }
  return true;
}

static Block* new_block() {
  Block* b = arena_array<Block>(1);
  if (!b) return nullptr;
  b->warp_count = E.warp_count;
  b->lanes = arena_array<Lane>(E.thread_count);
  b->warps = arena_array<Warp>(E.warp_count);
  b->order = arena_array<uint32_t>(E.warp_count);
  uint64_t bytes = 0; uint32_t shared = 0;
  for (auto& r : E.ranges) if (r.space == OPTIML_SHARED) { bytes += r.high - r.low; shared++; }
  b->shared_bytes = arena_array<char>(bytes + 1);
  b->shared_shadow = arena_array<CellArray>(shared + 1);
  if (!b->lanes || !b->warps || !b->order || !b->shared_bytes || !b->shared_shadow) return nullptr;
  lay_out_block(b);
  for (uint32_t w = 0; w < E.warp_count; w++) {
    b->order[w] = w;
    if (E.races && !(b->warps[w].clocks = (uint32_t(*)[32])arena_take(32 * 32 * 4))) return nullptr;
  }
  for (auto& r : E.ranges)
    if (E.races && r.space == OPTIML_SHARED && !new_cells(b->shared_shadow[r.shared_number], r.high - r.base, 2)) return nullptr;
  return b;
}

// Makes `b` the block whose shared memory is in place.
static void switch_to(Block* b, bool fresh) {
  Block* old = E.block;
  if (old != b || fresh) {
    char* kept = old ? old->shared_bytes : nullptr; char* saved = b->shared_bytes;
    for (auto& r : E.ranges) {
      if (r.space != OPTIML_SHARED) continue;
      size_t n = r.high - r.low;
      if (old && old != b && old->state != Block::DONE) memcpy(kept, (void*)r.low, n);
      if (old) { old->shared_shadow[r.shared_number] = r.shadow; kept += n; }
      r.shadow = b->shared_shadow[r.shared_number];
      if (fresh) memset((void*)r.low, E.options.poison, n); else memcpy((void*)r.low, saved, n);
      saved += n;
    }
  }
  E.block = b; E.epoch = b->epoch;
}

static void begin(Block* b, uint32_t number) {
  b->number = number;
  b->index = {number % E.grid.x, number / E.grid.x % E.grid.y, number / E.grid.x / E.grid.y};
  start_block(b);
  if (E.options.traffic) reuse_start_block();
  if (E.options.schedule) shuffle_order(b->order, E.warp_count);
  E.statistics.blocks++;
  E.statistics.threads += E.thread_count;
  switch_to(b, true);
}

// All blocks wait at the grid's barrier: everything before it is ordered before everything after.
static void release_grid(std::vector<Block*>& resident) {
  E.grid_epoch = E.next_epoch;
  for (Block* b : resident) {
    b->state = Block::READY;
    switch_to(b, false);
    b->epoch = E.epoch = new_epoch(b);
    for (uint32_t k = 0; k < b->warp_count; k++) {
      Warp& w = b->warps[k];
      w.runnable = w.at_barrier;
      w.at_barrier = 0;
      reset_clocks(w);
    }
  }
}

// Blocks run one after another; one that waits for the grid or spins on another block stays
// resident while others start.
static bool run_blocks(std::vector<uint32_t>& numbers) {
  uint32_t capacity = MAX_RESIDENT_THREADS / 32 / E.warp_count;
  std::vector<Block*> free_slots, resident;
  size_t next = 0, turn = 0, made = 0, ended = 0;
  for (;;) {
    Block* b = nullptr;
    bool can_start = next < numbers.size() && (!free_slots.empty() || made < capacity);
    if (can_start) {
      if (free_slots.empty()) {
        if (!(b = new_block())) return false;
        made++;
      } else {
        b = free_slots.back();
        free_slots.pop_back();
      }
      begin(b, numbers[next++]);
      resident.push_back(b);
    } else {
      for (size_t k = 0; k < resident.size() && !b; k++)
        if (resident[(turn + k) % resident.size()]->state == Block::READY) { b = resident[(turn + k) % resident.size()]; turn += k + 1; }
      if (!b && resident.empty()) return true;
      if (!b && next < numbers.size()) { refuse(OPTIML_LIMIT_COOPERATIVE, numbers.size() * (uint64_t)E.thread_count, MAX_RESIDENT_THREADS); return false; }
      if (!b && ended) {
        report(OPTIML_DEADLOCK, 0, 0, 0, 0, resident[0]->number);
        return false;
      }
      if (!b) { release_grid(resident); continue; }
      switch_to(b, false);
    }
    switch (run_block(b, next < numbers.size() || resident.size() > 1)) {
      case LAUNCH_STOPPED: return false;
      case BLOCK_PARKED: break;
      case BLOCK_DONE:
        ended++;
        resident.erase(std::find(resident.begin(), resident.end(), b));
        free_slots.push_back(b);
    }
  }
}

extern "C" int32_t optiml_emulator_launch(OptimlEntry entry, void** arguments, const uint32_t grid[3],
                                          const uint32_t block[3], uint64_t dynamic_shared, const OptimlOptions* options) {
  forget_launch();
  E.entry = entry; E.arguments = arguments; E.options = *options;
  E.lockstep = options->lockstep; E.races = options->races; E.initialisation = options->races && options->initialisation;
  E.step_limit = options->steps ? options->steps : ~0ull;
  E.random = options->schedule; E.reverse = options->schedule & 1;
  A.limit = options->memory_limit ? options->memory_limit : DEFAULT_MEMORY;
  if (over_a_limit(grid, block, dynamic_shared)) return OPTIML_LAUNCH_REFUSED;
  if (!A.area.base || dynamic_shared > sizeof optiml_dynamic_shared) return OPTIML_NO_MEMORY;
  E.grid = {grid[0], grid[1], grid[2]}; E.dim = {block[0], block[1], block[2]};
  E.thread_count = block[0] * block[1] * block[2];
  E.warp_count = (E.thread_count + 31) / 32;
  E.dynamic_shared = dynamic_shared;
  if (dynamic_shared) {
    Range r{};
    r.low = r.base = (uintptr_t)optiml_dynamic_shared; r.high = r.low + dynamic_shared;
    r.buffer = -2; r.space = OPTIML_SHARED;
    insert_range(r);
  }
  E.grid_epoch = E.next_epoch;
  std::vector<uint32_t> numbers;
  uint64_t total = (uint64_t)grid[0] * grid[1] * grid[2];
  if (options->blocks) {
    for (uint64_t i = 0; i < options->block_count; i++) if (options->blocks[i] < total) numbers.push_back(options->blocks[i]);
  } else if (total > 1u << 26) {
    return OPTIML_NO_MEMORY;
  } else {
    for (uint64_t b = 0; b < total; b++) numbers.push_back((uint32_t)b);
  }
  if (options->schedule) shuffle_order(numbers.data(), numbers.size());
  if (options->traffic) reuse_start_launch();
  bool ended = prepare_ranges() && run_blocks(numbers);
  E.current = nullptr;
  for (auto& r : E.ranges) if (options->traffic && r.space != OPTIML_SHARED) E.traffic.push_back(r.traffic);
  E.ranges.erase(std::remove_if(E.ranges.begin(), E.ranges.end(), [](const Range& r) { return r.buffer == -2; }), E.ranges.end());
  for (auto& r : E.ranges) if (r.space == OPTIML_SHARED) r.shadow = {};
  return E.out_of_memory ? OPTIML_NO_MEMORY : ended ? OPTIML_DONE
         : !E.reports.empty() && E.reports.back().what == OPTIML_LAUNCH_LIMIT ? OPTIML_LAUNCH_REFUSED : OPTIML_STOPPED;
}

extern "C" uint64_t optiml_emulator_sites(const OptimlSite** p) { *p = E.sites.data(); return E.sites.size(); }
extern "C" uint64_t optiml_emulator_reports(const OptimlReport** p) { *p = E.reports.data(); return E.reports.size(); }
extern "C" uint64_t optiml_emulator_traffic(const OptimlTraffic** p) { *p = E.traffic.data(); return E.traffic.size(); }
extern "C" void optiml_emulator_statistics(OptimlStatistics* s) { *s = E.statistics; }
extern "C" uint64_t optiml_emulator_output(const char** p) { *p = E.output.data(); return E.output.size(); }
