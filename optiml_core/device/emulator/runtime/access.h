// access.h - every load, store and atomic of the kernel comes through here before it happens.
#pragma once
#include "races.h"
#include "schedule.h"

static int site_of(uintptr_t pc, int kind, int space, int size, int buffer) {
  uintptr_t key = pc * 4 + space;
  size_t mask = E.site_table.size() - 1, h = (key * 0x9E3779B97F4A7C15ull) >> 40 & mask;
  for (;; h = (h + 1) & mask) {
    int i = E.site_table[h];
    if (i < 0) {
      OptimlSite s{};
      s.pc = pc; s.kind = (uint8_t)kind; s.space = (uint8_t)space; s.size = (uint8_t)size; s.buffer = buffer;
      E.site_table[h] = (int)E.sites.size();
      E.sites.push_back(s);
      return E.site_table[h];
    }
    if (E.sites[i].pc == pc && E.sites[i].space == space) {
      if (E.sites[i].buffer != buffer) E.sites[i].buffer = -1;
      return i;
    }
  }
}

static inline Range* find_range(uintptr_t address, size_t bytes) {
  Range* r = E.last;
  if (r && address >= r->low && address + bytes <= r->high) return r;
  for (auto& q : E.ranges)
    if (address >= q.low && address + bytes <= q.high) return E.last = &q;
  return nullptr;
}

[[noreturn]] static void out_of_bounds(uintptr_t address, size_t size, int kind, uintptr_t pc) {
  Range* nearest = nullptr; uint64_t distance = ~0ull;
  for (auto& q : E.ranges) {
    uint64_t d = address < q.low ? q.low - address : address + size > q.high ? address + size - q.high : 0;
    if (d < distance) { distance = d; nearest = &q; }
  }
  if (auto* r = report(OPTIML_OUT_OF_BOUNDS, pc, 0, address, E.current->thread, E.block_number)) {
    r->size = (uint32_t)size; r->kind = kind;
    if (nearest) {
      r->buffer = nearest->buffer; r->space = nearest->space;
      r->detail = address < nearest->low ? (int64_t)(address - nearest->low) : (int64_t)(address - nearest->high);
    }
  }
  end_lane(E.current);
}

static inline __attribute__((always_inline)) void access(uintptr_t address, int size, int kind, uintptr_t pc) {
  if (address - E.stack_low < E.stack_bytes) { E.statistics.local_accesses++; return; }
  Lane* l = E.current;
  if (!l) return;
  E.statistics.accesses++;
  Range* r = find_range(address, size);
  if (!r) out_of_bounds(address, size, kind, pc);
  if (size > 1 && (address & (size - 1)) && (size & (size - 1)) == 0) {
    if (auto* x = report(OPTIML_MISALIGNED, pc, 0, address, l->thread, E.block_number)) {
      x->buffer = r->buffer; x->space = r->space; x->size = size; x->kind = kind;
    }
    end_lane(l);
  }
  if (kind != OPTIML_LOAD && (r->flags & OPTIML_READ_ONLY)) {
    if (auto* x = report(OPTIML_READ_ONLY_WRITE, pc, 0, address, l->thread, E.block_number)) x->buffer = r->buffer;
    end_lane(l);
  }
  if (E.statistics.accesses > E.options.steps) {
    report(OPTIML_STEP_LIMIT, pc, 0, 0, l->thread, E.block_number);
    stop_launch(l);
  }
  l->address = address; l->size = (uint8_t)size; l->kind = (uint8_t)kind; l->pc = pc;
  if (E.options.races || E.options.lockstep) l->site = (uint16_t)site_of(pc, kind, r->space, size, r->buffer);
  if (E.options.races) check_races(r, l);
  if (!E.options.lockstep) return;
  l->depth = (uintptr_t)l->stack_top - (uintptr_t)__builtin_frame_address(0);
  l->state = AT_ACCESS;
  run_next(l);
}
