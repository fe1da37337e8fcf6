// async_copies.h - cp.async and what is built on it: the data lands at the wait, and whatever
// touches the destination before is a fault; and cuda::barrier, which threads arrive and wait at.
#pragma once
#include "access.h"

struct Copy {
  char* to; const char* from; uint32_t bytes, from_bytes;  // the rest of `bytes` is filled with zeros
  uintptr_t pc; uint32_t site, group; Lane* lane; Copy* next;
};
struct Copies { Copy *first, *last; uint32_t group; };  // group: the number of the one being filled

struct Arrival {
  uintptr_t address; Arrival* next;
  uint64_t phase; uint32_t expected, missing, dropped, completed_version;
  SyncObject* sync; Copy* attached;
};

static Copies* copies_of(Lane* lane) {
  if (!lane->copies) lane->copies = arena_array<Copies>(1);
  return lane->copies;
}

template <class F> static void each_cell(Range* r, uintptr_t address, size_t bytes, F f) {
  CellArray& array = r->shadow;
  if (!array.cells) return;
  size_t first = (address - r->base) >> array.shift, last = (address + bytes - 1 - r->base) >> array.shift;
  for (size_t i = first; i <= last; i++) f(array.cells[i]);
}

static void land(Copy* c) {
  memcpy(c->to, c->from, c->from_bytes);
  memset(c->to + c->from_bytes, 0, c->bytes - c->from_bytes);
  if (!E.races) return;
  if (Range* r = find_range((uintptr_t)c->to, c->bytes))
    each_cell(r, (uintptr_t)c->to, c->bytes, [&](Cell& cell) {
      if (cell.write_epoch && !(cell.write_site & PENDING)) return;  // written over: reported already
      cell.write_epoch = E.epoch; cell.write_stamp = stamp_of(c->lane); cell.write_site &= (uint16_t)~PENDING;
    });
  // The source may be read as late as now.
  if (c->from_bytes)
    if (Range* r = find_range((uintptr_t)c->from, c->from_bytes))
      for (uint32_t i = 0; i < c->from_bytes; i += 4)
        check_races(r, c->lane, c->pc, (uintptr_t)c->from + i, (int)std::min(4u, c->from_bytes - i), OPTIML_LOAD, (int)c->site, false, true);
}

static void land_groups(Lane* lane, uint32_t before) {
  Copies* list = lane->copies;
  if (!list) return;
  while (list->first && (int32_t)(list->first->group - before) < 0) {
    land(list->first);
    list->first = list->first->next;
  }
  if (!list->first) list->last = nullptr;
}
static void land_all_copies(Lane* lane) {
  if (lane->copies) land_groups(lane, lane->copies->group + 1);
}

static Copy* issue(void* to, const void* from, uint32_t bytes, uint32_t from_bytes, uintptr_t pc) {
  Lane* lane = E.current;
  if (from_bytes) access_bytes((uintptr_t)from, from_bytes, OPTIML_LOAD, pc);
  uint32_t site = slot_of(pc, OPTIML_LOAD).site;
  access_bytes((uintptr_t)to, bytes, OPTIML_STORE, pc);
  if (E.races)
    if (Range* r = find_range((uintptr_t)to, bytes)) each_cell(r, (uintptr_t)to, bytes, [](Cell& cell) { cell.write_site |= PENDING; });
  Copy* c = arena_array<Copy>(1);
  if (!c) stop_launch(lane);
  *c = {(char*)to, (const char*)from, bytes, from_bytes, pc, site, 0, lane, nullptr};
  return c;
}

#define CALLER ((uintptr_t)__builtin_return_address(0))

extern "C" void optiml_device_copy_async(void* to, const void* from, uint32_t bytes, uint32_t from_bytes) {
  Copy* c = issue(to, from, bytes, std::min(bytes, from_bytes), CALLER);
  Copies* list = copies_of(E.current);
  if (!list) stop_launch(E.current);
  c->group = list->group;
  if (list->last) list->last->next = c; else list->first = c;
  list->last = c;
}
extern "C" void optiml_device_copy_commit() {
  if (Copies* list = copies_of(E.current)) list->group++;
}
// Waits until at most `prior` of the latest committed groups are under way.
extern "C" void optiml_device_copy_wait(uint32_t prior) {
  if (Copies* list = E.current->copies) land_groups(E.current, list->group - prior);
}
extern "C" void optiml_device_copy_wait_all() { land_all_copies(E.current); }

// ---- cuda::barrier ---------------------------------------------------------------------------------

static Arrival* arrival_at(uintptr_t address) {
  for (Arrival* a = E.block->arrivals; a; a = a->next) if (a->address == address) return a;
  return nullptr;
}

extern "C" void optiml_device_arrival_init(void* where, uint32_t expected) {
  access((uintptr_t)where, 8, OPTIML_STORE, CALLER);
  Arrival* a = arrival_at((uintptr_t)where);
  if (!a) {
    if (!(a = arena_array<Arrival>(1))) stop_launch(E.current);
    a->address = (uintptr_t)where; a->next = E.block->arrivals;
    E.block->arrivals = a;
  }
  a->expected = a->missing = expected; a->phase = 0; a->dropped = 0; a->attached = nullptr;
  a->sync = E.races ? new_sync_object(a->address) : nullptr;
}

// The barrier at `where`, or the end of this lane: it was never made.
static Arrival* known_arrival(void* where, uintptr_t pc) {
  access((uintptr_t)where, 8, OPTIML_ATOMIC, pc);
  Arrival* a = arrival_at((uintptr_t)where);
  if (a) return a;
  report_here(OPTIML_UNINITIALISED_READ, pc, 0, (uintptr_t)where);
  end_lane(E.current);
}

static void arrive(Arrival* a, uint32_t count) {
  Lane* lane = E.current;
  if (E.races) {
    E.fences++;
    release(lane, a->sync, 0, E.epoch, lane->clock);
    if (lane->clock < CLOCK_MASK) lane->clock++;
  }
  a->missing -= std::min(a->missing, count);
  if (a->missing) return;
  for (Copy* c = a->attached; c; c = c->next) {
    land(c);
    if (E.races) {
      release(c->lane, a->sync, 0, E.epoch, c->lane->clock);
      if (c->lane->clock < CLOCK_MASK) c->lane->clock++;
    }
  }
  a->attached = nullptr;
  a->phase++;
  a->expected -= std::min(a->expected, a->dropped);
  a->dropped = 0;
  a->missing = a->expected;
  if (a->sync) a->completed_version = a->sync->length;
}

static void learn(Lane* lane, Arrival* a) {
  if (!E.races || !a->sync) return;
  Known* k = (Known*)arena_take(sizeof(Known) + sizeof(Source));
  if (!k) return;
  k->count = 1; k->sources[0] = {a->sync, a->completed_version, 0};
  lane->known = merge(lane->known, k);
}

extern "C" uint64_t optiml_device_arrive(void* where, uint32_t count, int drop) {
  Arrival* a = known_arrival(where, CALLER);
  uint64_t token = a->phase;
  a->dropped += drop ? count : 0;
  arrive(a, count);
  return token;
}
extern "C" int optiml_device_arrival_test(void* where, uint64_t token) {
  Arrival* a = known_arrival(where, CALLER);
  if (a->phase == token) return 0;
  learn(E.current, a);
  return 1;
}
extern "C" void optiml_device_arrival_wait(void* where, uint64_t token) {
  Arrival* a = known_arrival(where, CALLER);
  Lane* lane = E.current;
  if (a->phase == token) {
    lane->waits_for = a; lane->phase = token; lane->pc = CALLER;
    lane->warp->at_wait |= 1u << lane->number;
    run_next(lane);
  }
  learn(lane, a);
}
// The phase that completes next, for waits by parity.
extern "C" uint64_t optiml_device_arrival_phase(void* where) { return known_arrival(where, CALLER)->phase; }

// A copy that the barrier's current phase waits for.
extern "C" void optiml_device_copy_async_arrival(void* to, const void* from, uint32_t bytes, void* where) {
  Copy* c = issue(to, from, bytes, bytes, CALLER);
  Arrival* a = known_arrival(where, CALLER);
  c->next = a->attached;
  a->attached = c;
}

static bool wake_waiting(Warp& w) {
  uint32_t awake = 0;
  each_lane(w, w.at_wait, [&](Lane& l) { if (l.waits_for->phase != l.phase) awake |= 1u << l.number; });
  w.at_wait &= ~awake;
  w.runnable = awake;
  return awake;
}
