// races.h - finds conflicting accesses that nothing orders, and reads of memory nobody wrote.
#pragma once
#include "state.h"

// The other lane is in the same warp and this lane has synchronised with it since.
static inline bool ordered_in_warp(uint32_t other, uint16_t other_sync, const Lane* lane) {
  return other / 32 == lane->thread / 32 && other_sync < lane->warp_sync;
}

static inline void check_races(Range* range, Lane* lane) {
  uintptr_t low = lane->address, high = low + lane->size;
  uint32_t me = E.block_number * E.thread_count + lane->thread;
  uint32_t first = me - lane->thread;
  for (uintptr_t word = low & ~(uintptr_t)3; word < high; word += 4) {
    Cell& c = range->cells[(word - (range->low & ~(uintptr_t)3)) >> 2];
    uint8_t mask = 15;
    if (word < low) mask &= 15 << (low - word);
    if (high < word + 4) mask &= 15 >> (word + 4 - high);
    bool write_live, read_live, writes = lane->kind != OPTIML_LOAD;
    if (range->space == OPTIML_SHARED) {
      write_live = c.write_epoch == E.epoch;
      read_live = c.read_epoch == E.epoch;
    } else {  // other blocks of this launch, or this barrier interval of this block
      write_live = c.write_epoch >= E.launch_epoch && c.writer != NOBODY &&
                   (c.write_epoch == E.epoch || c.writer < first || c.writer >= first + E.thread_count);
      read_live = c.read_epoch >= E.launch_epoch && c.reader1 != NOBODY &&
                  (c.read_epoch == E.epoch || c.reader1 < first || c.reader1 >= first + E.thread_count);
    }
    auto thread = [&](uint32_t g) { return g % E.thread_count; };
    auto block = [&](uint32_t g) { return g / E.thread_count; };
    auto ordered = [&](uint32_t g, uint16_t sync) {
      return block(g) == E.block_number && ordered_in_warp(thread(g), sync, lane);
    };
    auto race = [&](OptimlWhat what, uint16_t other_site, uint32_t other) {
      if (auto* r = report(what, lane->pc, E.sites[other_site].pc, word, lane->thread, E.block_number)) {
        r->thread2 = thread(other); r->block2 = block(other); r->buffer = range->buffer;
        r->kind = lane->kind; r->space = range->space; r->size = lane->size;
      }
    };
    if (write_live && c.writer != me && (c.write_mask & mask) && !(c.write_atomic && lane->kind == OPTIML_ATOMIC) &&
        !ordered(c.writer, c.write_sync)) {
      bool same_warp = block(c.writer) == E.block_number && thread(c.writer) / 32 == lane->thread / 32;
      race(same_warp ? (writes && c.write_site == lane->site ? OPTIML_RACE_SAME_INSTRUCTION : OPTIML_RACE_IN_WARP)
                     : (writes ? OPTIML_RACE_WRITE_WRITE : OPTIML_RACE_READ_WRITE), c.write_site, c.writer);
    }
    if (writes) {
      for (int k = 0; k < 2 && read_live; k++) {
        uint32_t other = k ? c.reader2 : c.reader1; uint16_t sync = k ? c.read_sync2 : c.read_sync1;
        if (other == NOBODY || other == me || !(c.read_mask & mask) || ordered(other, sync)) continue;
        bool same_warp = block(other) == E.block_number && thread(other) / 32 == lane->thread / 32;
        race(same_warp ? OPTIML_RACE_IN_WARP : OPTIML_RACE_READ_WRITE, c.read_site, other);
        break;
      }
      c.writer = me; c.write_epoch = E.epoch; c.write_site = lane->site; c.write_sync = lane->warp_sync;
      c.write_mask = mask; c.write_atomic = lane->kind == OPTIML_ATOMIC; c.written |= mask;
    } else {
      if (E.options.initialisation && (range->space == OPTIML_SHARED || (range->flags & OPTIML_UNINITIALISED)) &&
          (c.written & mask) != mask)
        if (auto* r = report(OPTIML_UNINITIALISED_READ, lane->pc, 0, word, lane->thread, E.block_number)) {
          r->buffer = range->buffer; r->space = range->space; r->size = lane->size;
        }
      if (!read_live || c.read_epoch != E.epoch) {
        c.reader1 = me; c.read_sync1 = lane->warp_sync; c.reader2 = NOBODY; c.read_mask = 0;
      } else if (c.reader1 == me) {
        c.read_sync1 = lane->warp_sync;
      } else {
        c.reader2 = me; c.read_sync2 = lane->warp_sync;
      }
      c.read_epoch = E.epoch; c.read_site = lane->site; c.read_mask |= mask;
    }
  }
}
