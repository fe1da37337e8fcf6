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

struct Conflict { Range* range; Lane* lane; uintptr_t pc, address; int kind, size, site; };

static __attribute__((noinline)) void race(Conflict c, bool store, uint32_t epoch, uint32_t stamp, int site) {
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

static __attribute__((noinline)) void uninitialised(Conflict c) {
  if (auto* r = report_here(OPTIML_UNINITIALISED_READ, c.pc, 0, c.address)) {
    r->buffer = c.range->buffer; r->space = c.range->space; r->size = c.size; r->kind = c.kind;
  }
}

// The cell was stored to, and it is not plain that this came before.
static __attribute__((noinline)) void check_writer(Conflict c, const Cell& cell, uint32_t floor) {
  if (cell.write_site & PENDING) {
    if (cell.write_epoch < (c.range->space == OPTIML_SHARED ? E.block->first_epoch : E.grid_epoch)) return;  // of an earlier block
    if (auto* r = report_here(OPTIML_MISSING_WAIT, c.pc, E.sites[cell.write_site & ~PENDING].pc, c.address)) {
      r->thread2 = cell.write_stamp >> CLOCK_BITS; r->block2 = E.block->number; r->buffer = c.range->buffer;
      r->kind = c.kind; r->space = c.range->space; r->size = c.size;
    }
  } else if (cell.write_epoch >= floor && !ordered(c.lane, cell.write_epoch, cell.write_stamp)) {
    race(c, true, cell.write_epoch, cell.write_stamp, cell.write_site);
  }
}

static __attribute__((noinline)) void check_readers(Conflict c, const Cell& cell, uint32_t floor) {
  if (cell.read_epoch >= floor) {
    if (!ordered(c.lane, cell.read_epoch, cell.read1)) { race(c, false, cell.read_epoch, cell.read1, cell.read_site); return; }
    if (cell.read2 && !ordered(c.lane, cell.read_epoch, cell.read2)) { race(c, false, cell.read_epoch, cell.read2, cell.read_site); return; }
  }
  if (cell.far_epoch >= floor && !ordered(c.lane, cell.far_epoch, cell.far)) race(c, false, cell.far_epoch, cell.far, cell.far_site);
}

static inline void note_reader(Cell& cell, uint32_t stamp, uint32_t floor, int site) {
  if (cell.read_epoch != E.epoch) {
    // Readers of another block stay on record beside this block's.
    if (cell.read_epoch >= floor && E.block_of_epoch[cell.read_epoch] != E.block->number) {
      cell.far_epoch = cell.read_epoch; cell.far = cell.read1; cell.far_site = cell.read_site;
    }
    cell.read_epoch = E.epoch; cell.read1 = stamp; cell.read2 = 0; cell.read_site = (uint16_t)site;
    return;
  }
  uint32_t other = cell.read1 ^ stamp;
  if (other >> CLOCK_BITS == 0) { cell.read1 = stamp; return; }
  if (other >> (CLOCK_BITS + 5) == 0) { cell.read2 = stamp; cell.read_site = (uint16_t)site; return; }
  if (cell.far_epoch != E.epoch && cell.far_epoch >= floor && E.block_of_epoch[cell.far_epoch] != E.block->number) return;
  cell.far_epoch = E.epoch; cell.far = stamp; cell.far_site = (uint16_t)site;
}

static bool new_cells(CellArray& array, size_t bytes, uint32_t shift) {
  array.shift = shift; array.atomics = nullptr;
  return (array.cells = arena_array<Cell>((bytes >> shift) + 2));
}

// Smaller cells from now on: some access is narrower than a cell.
static __attribute__((noinline)) bool refine(Range* r, CellArray& array, uint32_t shift) {
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

static __attribute__((noinline)) bool new_atomics(Range* r, CellArray& array) {
  return (array.atomics = arena_array<AtomicCell>(((r->high - r->base) >> array.shift) + 2));
}

// Bytes [address, address + size) are accessed; `strong`: an atomic or a volatile access to global memory.
// `reads`: the value that was there matters.
static inline __attribute__((always_inline)) void check_races(Range* r, Lane* lane, uintptr_t pc, uintptr_t address, int size, int kind,
                                                              int site, bool strong, bool reads) {
  CellArray& array = r->shadow;
  uint32_t narrow = size >= 4 && !(address & 3) ? 2 : size >= 2 && !(address & 1) ? 1 : 0;
  if (__builtin_expect(narrow < array.shift, 0) && !refine(r, array, narrow)) return;
  if (strong && kind != OPTIML_LOAD && __builtin_expect(!array.atomics, 0) && !new_atomics(r, array)) return;
  bool shared = r->space == OPTIML_SHARED;
  // Older epochs cannot conflict: shared memory is this block's own, and its barriers order it.
  uint32_t floor = shared ? E.epoch : E.grid_epoch;
  uint32_t stamp = stamp_of(lane);
  Cell* cell = array.cells + ((address - r->base) >> array.shift);
  AtomicCell* atomic = array.atomics ? array.atomics + (cell - array.cells) : nullptr;
  Conflict c{r, lane, pc, address, kind, size, site};
  for (int left = std::max(1, size >> array.shift); left; left--, cell++) {
    // The common cases of a store: none live, or this lane's own in this interval.
    if (__builtin_expect(cell->write_epoch >= floor || (cell->write_site & PENDING), 0))
      if (cell->write_epoch != E.epoch || (cell->write_stamp ^ stamp) >> CLOCK_BITS || (cell->write_site & PENDING)) check_writer(c, *cell, floor);
    if (reads && E.initialisation) {
      // Older writes do not count as having initialised it; 0: it came initialised.
      uint32_t born = shared ? E.block->first_epoch : r->flags & OPTIML_UNINITIALISED ? 1 : 0;
      if (__builtin_expect(cell->write_epoch < born, 0) && !(atomic && atomic->epoch >= born)) uninitialised(c);
    }
    bool others = kind != OPTIML_LOAD && (cell->read_epoch >= floor || cell->far_epoch >= floor);
    if (strong) {  // no race with other strong accesses
      if (kind != OPTIML_LOAD) {
        if (others) check_readers(c, *cell, floor);
        *atomic = {E.epoch, stamp, (uint16_t)site};
      }
    } else {
      if (atomic && atomic->epoch >= floor && !ordered(lane, atomic->epoch, atomic->stamp)) race(c, true, atomic->epoch, atomic->stamp, atomic->site);
      if (kind == OPTIML_LOAD) {
        note_reader(*cell, stamp, floor, site);
      } else {
        if (others) check_readers(c, *cell, floor);
        cell->write_epoch = E.epoch; cell->write_stamp = stamp; cell->write_site = (uint16_t)site;
      }
    }
    if (atomic) atomic++;
  }
  if (kind == OPTIML_STORE && !strong) lane->dirty = 1;
  if (__builtin_expect(strong && E.fences, 0))  // addresses of shared memory are told apart by block
    synchronise_at(lane, shared ? address ^ (uintptr_t)(E.block->number + 1) << 48 : address, kind != OPTIML_STORE, kind != OPTIML_LOAD);
}
