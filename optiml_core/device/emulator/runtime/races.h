// races.h - finds conflicting accesses that nothing orders, reads of memory nobody wrote, and
// accesses to the destination of an asynchronous copy that nobody waited for.
#pragma once
#include "knowledge.h"

static inline uint32_t stamp_of(const Lane* l) { return l->thread << CLOCK_BITS | (l->clock & CLOCK_MASK); }

// Whether the access (epoch, stamp) by another thread or an earlier interval happened before what `me` does now.
static bool ordered(const Lane* me, uint32_t epoch, uint32_t stamp) {
  uint32_t thread = stamp >> CLOCK_BITS, clock = stamp & CLOCK_MASK;
  if (epoch == E.epoch) {
    if (thread == me->thread) return true;
    if (thread / 32 == me->thread / 32 && me->warp->clocks[me->number][thread & 31] >= clock) return true;
    return me->known && knows(me->known, epoch, thread, clock, E.block->number);
  }
  if (epoch < E.grid_epoch) return true;
  uint32_t block = E.block_of_epoch[epoch];
  if (block == E.block->number) return true;
  return me->known && knows(me->known, epoch, thread, clock, block);
}

// floor: older epochs cannot conflict; born: older writes do not count as having initialised the memory
// (0: it came initialised). Shared memory is new with its block.
struct Conflict { Range* range; Lane* lane; uintptr_t pc, address; int kind, size, site; uint32_t floor, born; };

static __attribute__((noinline)) void race(const Conflict& c, bool store, uint32_t epoch, uint32_t stamp, int site) {
  uint32_t thread = stamp >> CLOCK_BITS, block = E.block_of_epoch[epoch];
  bool same_warp = block == E.block->number && thread / 32 == c.lane->thread / 32;
  bool both_store = store && c.kind != OPTIML_LOAD;
  OptimlWhat what = !same_warp ? (both_store ? OPTIML_RACE_WRITE_WRITE : OPTIML_RACE_READ_WRITE)
                    : both_store && site == c.site ? OPTIML_RACE_SAME_INSTRUCTION : OPTIML_RACE_IN_WARP;
  if (auto* r = report_here(what, c.pc, E.sites[site].pc, c.address)) {
    r->thread2 = thread; r->block2 = block; r->buffer = c.range->buffer;
    r->kind = c.kind; r->space = c.range->space; r->size = c.size;
  }
}

static __attribute__((noinline)) void pending_access(const Conflict& c, const Cell& cell) {
  if (auto* r = report_here(OPTIML_MISSING_WAIT, c.pc, E.sites[cell.write_site & ~PENDING].pc, c.address)) {
    r->thread2 = cell.write_stamp >> CLOCK_BITS; r->block2 = E.block->number; r->buffer = c.range->buffer;
    r->kind = c.kind; r->space = c.range->space; r->size = c.size;
  }
}

static __attribute__((noinline)) void uninitialised(const Conflict& c) {
  if (auto* r = report_here(OPTIML_UNINITIALISED_READ, c.pc, 0, c.address)) {
    r->buffer = c.range->buffer; r->space = c.range->space; r->size = c.size; r->kind = c.kind;
  }
}

static inline void check_readers(const Conflict& c, Cell& cell) {
  if (cell.read_epoch >= c.floor) {
    if (!ordered(c.lane, cell.read_epoch, cell.read1)) { race(c, false, cell.read_epoch, cell.read1, cell.read_site); return; }
    if (cell.read2 && !ordered(c.lane, cell.read_epoch, cell.read2)) { race(c, false, cell.read_epoch, cell.read2, cell.read_site); return; }
  }
  if (cell.far_epoch >= c.floor && !ordered(c.lane, cell.far_epoch, cell.far)) race(c, false, cell.far_epoch, cell.far, cell.far_site);
}

static inline void note_reader(const Conflict& c, Cell& cell) {
  uint32_t stamp = stamp_of(c.lane);
  if (cell.read_epoch != E.epoch) {
    // Readers of another block stay on record beside this block's.
    if (cell.read_epoch >= c.floor && E.block_of_epoch[cell.read_epoch] != E.block->number) {
      cell.far_epoch = cell.read_epoch; cell.far = cell.read1; cell.far_site = cell.read_site;
    }
    cell.read_epoch = E.epoch; cell.read1 = stamp; cell.read2 = 0; cell.read_site = (uint16_t)c.site;
    return;
  }
  uint32_t other = cell.read1 ^ stamp;
  if (other >> CLOCK_BITS == 0) { cell.read1 = stamp; return; }
  if (other >> (CLOCK_BITS + 5) == 0) { cell.read2 = stamp; cell.read_site = (uint16_t)c.site; return; }
  if (cell.far_epoch != E.epoch && cell.far_epoch >= c.floor && E.block_of_epoch[cell.far_epoch] != E.block->number) return;
  cell.far_epoch = E.epoch; cell.far = stamp; cell.far_site = (uint16_t)c.site;
}

static inline void check_cell(const Conflict& c, CellArray& array, size_t index, bool strong) {
  Cell& cell = array.cells[index];
  AtomicCell* atomic = array.atomics ? &array.atomics[index] : nullptr;
  Lane* me = c.lane;
  if (__builtin_expect(cell.write_epoch >= c.floor, 0)) {
    if (cell.write_site & PENDING) pending_access(c, cell);
    else if (cell.write_epoch != E.epoch || cell.write_stamp >> CLOCK_BITS != me->thread)
      if (!ordered(me, cell.write_epoch, cell.write_stamp)) race(c, true, cell.write_epoch, cell.write_stamp, cell.write_site);
  }
  if (c.kind != OPTIML_STORE && cell.write_epoch < c.born && !(atomic && atomic->epoch >= c.born)) uninitialised(c);
  if (strong) {  // atomics and volatile accesses: no race among themselves
    if (c.kind == OPTIML_LOAD) return;
    check_readers(c, cell);
    if (atomic) *atomic = {E.epoch, stamp_of(me), (uint16_t)c.site};
    return;
  }
  if (atomic && atomic->epoch >= c.floor && !ordered(me, atomic->epoch, atomic->stamp))
    race(c, true, atomic->epoch, atomic->stamp, atomic->site);
  if (c.kind == OPTIML_LOAD) { note_reader(c, cell); return; }
  check_readers(c, cell);
  cell.write_epoch = E.epoch; cell.write_stamp = stamp_of(me); cell.write_site = (uint16_t)c.site;
}

static bool new_cells(CellArray& array, size_t bytes, uint32_t shift) {
  array.shift = shift; array.atomics = nullptr;
  return (array.cells = arena_array<Cell>((bytes >> shift) + 2));
}

// Smaller cells from now on: some access is narrower than a cell.
static bool refine(Range* r, CellArray& array, uint32_t shift) {
  size_t old = ((r->high - r->base) >> array.shift) + 1;
  CellArray fine{};
  uint32_t split = array.shift - shift;
  if (!new_cells(fine, r->high - r->base, shift)) return false;
  if (array.atomics && !(fine.atomics = arena_array<AtomicCell>((old << split) + 2))) return false;
  for (size_t i = 0; i < (old << split) && i < ((r->high - r->base) >> shift) + 2; i++) {
    fine.cells[i] = array.cells[i >> split];
    if (fine.atomics) fine.atomics[i] = array.atomics[i >> split];
  }
  array = fine;
  return true;
}

// Bytes [address, address + size) are accessed; `strong`: an atomic or a volatile access to global memory.
static inline void check_races(Range* r, Lane* lane, uintptr_t pc, uintptr_t address, int size, int kind, int site, bool strong) {
  CellArray& array = r->shadow;
  uint32_t narrow = size >= 4 && !(address & 3) ? 2 : size >= 2 && !(address & 1) ? 1 : 0;
  if (__builtin_expect(narrow < array.shift, 0) && !refine(r, array, narrow)) return;
  size_t first = (address - r->base) >> array.shift, count = std::max(1, size >> array.shift);
  if (strong && kind != OPTIML_LOAD && !array.atomics &&
      !(array.atomics = arena_array<AtomicCell>(((r->high - r->base) >> array.shift) + 2))) return;
  bool shared = r->space == OPTIML_SHARED;
  uint32_t born = !E.initialisation ? 0 : shared ? E.block->first_epoch : r->flags & OPTIML_UNINITIALISED ? 1 : 0;
  Conflict c{r, lane, pc, address, kind, size, site, shared ? E.block->first_epoch : E.grid_epoch, born};
  for (size_t i = first; i < first + count; i++) check_cell(c, array, i, strong);
  if (E.fences && strong && r->space != OPTIML_SHARED) synchronise_at(lane, address, kind != OPTIML_STORE, kind != OPTIML_LOAD);
  else if (E.fences && strong) synchronise_at(lane, address ^ (uintptr_t)(E.block->number + 1) << 48, kind != OPTIML_STORE, kind != OPTIML_LOAD);
  if (kind == OPTIML_STORE && !strong) lane->dirty = 1;
}
