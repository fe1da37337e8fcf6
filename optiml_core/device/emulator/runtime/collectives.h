// collectives.h - warp-wide operations: shuffles, votes, reductions, matches.
#pragma once
#include "state.h"

static uint32_t unfinished(Warp& w) {
  uint32_t m = 0;
  for (uint32_t i = 0; i < w.lanes; i++) if (E.lanes[w.first + i].state != FINISHED) m |= 1u << i;
  return m;
}

template <class F> static inline void each_lane(Warp& w, uint32_t mask, F f) {
  for (; mask; mask &= mask - 1) f(E.lanes[w.first + __builtin_ctz(mask)]);
}

static void shuffle(Warp& w, Lane& lane, uint32_t mask) {
  int low = lane.number & ~(lane.width - 1), high = low + lane.width - 1, source = lane.number;
  switch (lane.operation) {
    case SHUFFLE: source = low + (lane.argument & (lane.width - 1)); break;
    case SHUFFLE_UP: source -= lane.argument; if (source < low) source = lane.number; break;
    case SHUFFLE_DOWN: source += lane.argument; if (source > high) source = lane.number; break;
    default: source ^= lane.argument; if (source > high) source = lane.number; break;
  }
  if (source >= (int)w.lanes || !(mask >> source & 1)) {
    if (auto* r = report(OPTIML_INACTIVE_SOURCE, lane.pc, 0, 0, lane.thread, E.block_number)) r->detail = source;
    source = lane.number;
  }
  lane.result = E.lanes[w.first + source].value;
}

static uint64_t reduce(Warp& w, int operation, uint32_t mask) {
  uint64_t total = E.lanes[w.first + __builtin_ctz(mask)].value.low;
  each_lane(w, mask & (mask - 1), [&](Lane& o) {
    uint64_t v = o.value.low;
    switch (operation) {
      case REDUCE_ADD: total += v; break;
      case REDUCE_MIN: total = (int32_t)v < (int32_t)total ? v : total; break;
      case REDUCE_MAX: total = (int32_t)v > (int32_t)total ? v : total; break;
      case REDUCE_UMIN: total = (uint32_t)v < (uint32_t)total ? v : total; break;
      case REDUCE_UMAX: total = (uint32_t)v > (uint32_t)total ? v : total; break;
      case REDUCE_AND: total &= v; break;
      case REDUCE_OR: total |= v; break;
      default: total ^= v; break;
    }
  });
  return total;
}

static void finish_collective(Warp& w, Lane& leader, uint32_t mask) {
  uint32_t ballot = 0;
  each_lane(w, mask, [&](Lane& o) { if (o.value.low) ballot |= 1u << o.number; });
  uint64_t reduced = leader.operation >= REDUCE_ADD && leader.operation <= REDUCE_UMAX ? reduce(w, leader.operation, mask) : 0;
  bool all_equal = true;
  if (leader.operation == MATCH_ALL) each_lane(w, mask, [&](Lane& o) { all_equal &= o.value.low == leader.value.low; });
  each_lane(w, mask, [&](Lane& o) {
    switch (o.operation) {
      case SYNC: break;
      case SHUFFLE: case SHUFFLE_UP: case SHUFFLE_DOWN: case SHUFFLE_XOR: shuffle(w, o, mask); break;
      case ANY: o.result = {ballot != 0, 0}; break;
      case ALL: o.result = {ballot == mask, 0}; break;
      case BALLOT: o.result = {ballot, 0}; break;
      case ACTIVE_MASK: o.result = {mask, 0}; break;
      case MATCH_ALL: o.result = {all_equal ? mask : 0u, 0}; break;
      case MATCH_ANY: {
        uint32_t same = 0;
        each_lane(w, mask, [&](Lane& p) { if (p.value.low == o.value.low) same |= 1u << p.number; });
        o.result = {same, 0};
        break;
      }
      default: o.result = {reduced, 0};
    }
  });
  each_lane(w, mask, [](Lane& o) { o.warp_sync++; o.state = RUNNING; });
}

// Carries out one collective whose lanes have all arrived. False when none is ready.
static bool try_collective(Warp& w) {
  uint32_t alive = unfinished(w);
  for (uint32_t i = 0; i < w.lanes; i++) {
    Lane& lane = E.lanes[w.first + i];
    if (lane.state != AT_COLLECTIVE) continue;
    bool active = lane.operation == ACTIVE_MASK;
    uint32_t want = active ? 0 : lane.mask & alive;
    if (active) {
      for (uint32_t j = 0; j < w.lanes; j++) {
        Lane& o = E.lanes[w.first + j];
        if (o.state == AT_COLLECTIVE && o.operation == ACTIVE_MASK && o.pc == lane.pc) want |= 1u << j;
      }
    } else if (!(lane.mask >> lane.number & 1)) {
      if (auto* r = report(OPTIML_BAD_WARP_MASK, lane.pc, 0, 0, lane.thread, E.block_number)) r->detail = lane.mask;
      want |= 1u << lane.number;
    }
    bool ready = true;
    each_lane(w, want, [&](Lane& o) {
      ready = ready && o.state == AT_COLLECTIVE && o.operation == lane.operation && (active || o.mask == lane.mask);
    });
    if (!ready) continue;
    E.statistics.collectives++;
    finish_collective(w, lane, want);
    w.runnable = want;
    return true;
  }
  return false;
}
