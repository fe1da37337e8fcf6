// access.h - every load, store and atomic of the kernel comes through here before it happens.
#pragma once
#include "schedule.h"

static uint32_t site_of(uintptr_t pc, int kind, int space, int size, int buffer) {
  uintptr_t key = (pc * 4 + space) * 4 + kind;
  size_t mask = E.site_table.size() - 1, h = (key * 0x9E3779B97F4A7C15ull) >> 40 & mask;
  for (;; h = (h + 1) & mask) {
    int i = E.site_table[h];
    if (i < 0) {
      if (E.sites.size() >= PENDING - 1u) return PENDING - 2;  // more sites than a cell can name: counted together
      OptimlSite s{};
      s.pc = pc; s.kind = (uint8_t)kind; s.space = (uint8_t)space; s.size = (uint8_t)size; s.buffer = buffer;
      E.site_table[h] = (int)E.sites.size();
      E.sites.push_back(s);
      return E.site_table[h];
    }
    if (E.sites[i].pc == pc && E.sites[i].space == space && E.sites[i].kind == kind) {
      if (E.sites[i].buffer != buffer) E.sites[i].buffer = -1;
      return i;
    }
  }
}

static Range* find_range(uintptr_t address, size_t bytes) {  // E.ranges is sorted by address
  size_t low = 0, high = E.ranges.size();
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (E.ranges[middle].high <= address) low = middle + 1; else high = middle;
  }
  if (low == E.ranges.size()) return nullptr;
  Range* r = &E.ranges[low];
  return address >= r->low && address + bytes <= r->high ? r : nullptr;
}

static void describe(OptimlReport* r, const Range* range, size_t size, int kind) {
  if (!r) return;
  r->size = (uint32_t)size; r->kind = kind;
  if (range) { r->buffer = range->buffer; r->space = range->space; }
}

static __attribute__((noinline)) void out_of_bounds [[noreturn]] (uintptr_t address, size_t size, int kind, uintptr_t pc) {
  Range* nearest = nullptr; uint64_t distance = ~0ull;
  for (auto& q : E.ranges) {
    uint64_t d = address < q.low ? q.low - address : address + size > q.high ? address + size - q.high : 0;
    if (d < distance) { distance = d; nearest = &q; }
  }
  if (auto* r = report_here(OPTIML_OUT_OF_BOUNDS, pc, 0, address)) {
    describe(r, nearest, size, kind);
    if (nearest) r->detail = address < nearest->low ? (int64_t)(address - nearest->low) : (int64_t)(address - nearest->high);
  }
  end_lane(E.current);
}

constexpr uintptr_t PIECE = 64 << 10;

static __attribute__((noinline)) void fill_pieces(Range* r, uintptr_t address, size_t size) {
  for (uintptr_t piece = (address - r->low) / PIECE; piece <= (address + size - 1 - r->low) / PIECE; piece++) {
    if (r->filled[piece]) continue;
    r->filled[piece] = 1;
    uint64_t offset = piece * PIECE;
    r->fill(r->buffer, offset, std::min<uint64_t>(PIECE, r->high - r->low - offset), r->fill_context);
  }
}

// A copy is a load and a store at one address of the code.
static inline Slot& slot_of(uintptr_t pc, int kind) { return E.slots[((pc ^ pc >> 12) + kind * (SLOTS / 4)) & (SLOTS - 1)]; }

// Finds the range of an access whose slot holds another one; ends the lane when there is none.
static __attribute__((noinline)) Range* look_up(Slot& slot, uintptr_t address, int size, int kind, uintptr_t pc) {
  Range* r = find_range(address, size);
  if (!r) out_of_bounds(address, size, kind, pc);
  if (kind != OPTIML_LOAD && (r->flags & OPTIML_READ_ONLY)) {
    describe(report_here(OPTIML_READ_ONLY_WRITE, pc, 0, address), r, size, kind);
    end_lane(E.current);
  }
  slot = {pc, r, E.races || E.lockstep ? site_of(pc, kind, r->space, size, r->buffer) : 0};
  return r;
}

static __attribute__((noinline)) void misaligned [[noreturn]] (Range* r, uintptr_t address, int size, int kind, uintptr_t pc) {
  describe(report_here(OPTIML_MISALIGNED, pc, 0, address), r, size, kind);
  end_lane(E.current);
}

static __attribute__((noinline)) void over_steps [[noreturn]] (uintptr_t pc) {
  report_here(OPTIML_STEP_LIMIT, pc);
  stop_launch(E.current);
}

// Counts what may be a wait for somebody else. Without lock-step a lane would spin for ever.
static inline void spinning(Lane* l) {
  E.block->strong_accesses++;
  if ((++l->warp->spins & 63) == 0 && !E.lockstep) yield_lane(l);
}

// `is_volatile`: of an atomic, that it is an exchange and needs no value to be there.
static inline __attribute__((always_inline)) void access(uintptr_t address, int size, int kind, uintptr_t pc, bool is_volatile = false) {
  if (address - E.stack_low < E.stack_bytes) { E.statistics.local_accesses++; return; }
  Lane* l = E.current;
  if (__builtin_expect(!l, 0)) return;
  if (__builtin_expect(++E.statistics.accesses > E.step_limit, 0)) over_steps(pc);
  Slot& slot = slot_of(pc, kind);
  Range* r = slot.range;
  if (__builtin_expect(slot.pc != pc || address < r->low || address + size > r->high, 0)) r = look_up(slot, address, size, kind, pc);
  if (size > 1 && __builtin_expect(address & (size - 1), 0)) misaligned(r, address, size, kind, pc);
  if (__builtin_expect(r->filled != nullptr, 0)) fill_pieces(r, address, size);
  if (kind == OPTIML_ATOMIC || is_volatile) spinning(l); else l->warp->spins = 0;
  if (!E.races && !E.lockstep) return;
  bool strong = kind == OPTIML_ATOMIC || (is_volatile && r->space != OPTIML_SHARED);
  uint32_t site = slot.site;
  if (E.lockstep) {
    Warp* w = l->warp; int i = l->number;
    w->pc[i] = pc; w->address[i] = address; w->site[i] = (uint16_t)site;
    w->depth[i] = (uint32_t)((uintptr_t)l->stack_top - (uintptr_t)__builtin_frame_address(0));
    w->at_access |= 1u << i;
    run_next(l);
  }
  // Only now does the access happen: what others did while this lane stood here came before it.
  if (E.races)
    check_races(r, l, pc, address, size, kind, (int)site, strong, kind == OPTIML_LOAD || (kind == OPTIML_ATOMIC && !is_volatile));
}

// A run of bytes, in the widest aligned pieces that fit both its start and its length.
static __attribute__((noinline)) void access_bytes(uintptr_t address, size_t bytes, int kind, uintptr_t pc) {
  if (!bytes || address - E.stack_low < E.stack_bytes) return;
  size_t piece = std::min<size_t>(16, (address | bytes) & -(address | bytes));
  for (size_t i = 0; i < bytes; i += piece) switch (piece) {
      case 1: access(address + i, 1, kind, pc); break;
      case 2: access(address + i, 2, kind, pc); break;
      case 4: access(address + i, 4, kind, pc); break;
      case 8: access(address + i, 8, kind, pc); break;
      default: access(address + i, 16, kind, pc); break;
    }
}
