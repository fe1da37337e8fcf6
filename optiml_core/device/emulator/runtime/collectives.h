// collectives.h - warp-wide operations: shuffles, votes, reductions, matches.
#pragma once
#include "races.h"

template <class F> static inline void each_lane(Warp& w, uint32_t mask, F f) {
  for (; mask; mask &= mask - 1) f(w.lanes[__builtin_ctz(mask)]);
}

static void matrix_multiply(Warp& w, uint32_t mask);  // matrix.h

static void shuffle(Warp& w, Lane& lane, uint32_t mask) {
  int low = lane.number & ~(lane.width - 1), high = low + lane.width - 1, source = lane.number;
  switch (lane.operation) {
    case SHUFFLE: source = low + (lane.argument & (lane.width - 1)); break;
    case SHUFFLE_UP: source -= lane.argument; if (source < low) source = lane.number; break;
    case SHUFFLE_DOWN: source += lane.argument; if (source > high) source = lane.number; break;
    default: source ^= lane.argument; if (source > high) source = lane.number; break;
  }
  if (source < 0 || source >= (int)w.count || !(mask >> source & 1)) {
    if (auto* r = report(OPTIML_INACTIVE_SOURCE, lane.pc, 0, 0, lane.thread, w.block->number)) r->detail = source;
    source = lane.number;
  }
  lane.result = w.lanes[source].value;
}

static uint64_t reduce(Warp& w, int operation, uint32_t mask) {
  uint64_t total = w.lanes[__builtin_ctz(mask)].value.low;
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

// After a warp-level synchronisation every member knows what every member did before it.
static void join_clocks(Warp& w, uint32_t mask) {
  if (!E.races) return;
  uint32_t joint[32] = {0};
  each_lane(w, mask, [&](Lane& o) {
    for (int i = 0; i < 32; i++) joint[i] = std::max(joint[i], w.clocks[o.number][i]);
  });
  const Known* known = nullptr;
  each_lane(w, mask, [&](Lane& o) {
    joint[o.number] = o.clock;
    if (E.fences) known = merge(known, o.known);
  });
  each_lane(w, mask, [&](Lane& o) {
    memcpy(w.clocks[o.number], joint, sizeof joint);
    if (o.clock < CLOCK_MASK) o.clock++;
    o.known = known;
  });
}

static void finish_collective(Warp& w, Lane& leader, uint32_t mask) {
  int operation = leader.operation;
  if (operation == MATRIX) matrix_multiply(w, mask);
  else if (operation >= SHUFFLE && operation <= SHUFFLE_XOR) each_lane(w, mask, [&](Lane& o) { shuffle(w, o, mask); });
  else if (operation >= REDUCE_ADD && operation <= REDUCE_UMAX) {
    uint64_t total = reduce(w, operation, mask);
    each_lane(w, mask, [&](Lane& o) { o.result = {total, 0}; });
  } else if (operation != SYNC) {
    uint32_t ballot = 0; bool all_equal = true;
    each_lane(w, mask, [&](Lane& o) {
      ballot |= (uint32_t)(o.value.low != 0) << o.number;
      all_equal &= o.value.low == leader.value.low;
    });
    each_lane(w, mask, [&](Lane& o) {
      uint32_t result = 0;
      switch (operation) {
        case ANY: result = ballot != 0; break;
        case ALL: result = ballot == mask; break;
        case BALLOT: result = ballot; break;
        case ACTIVE_MASK: result = mask; break;
        case MATCH_ALL: result = all_equal ? mask : 0; break;
        default: each_lane(w, mask, [&](Lane& p) { result |= (uint32_t)(p.value.low == o.value.low) << p.number; });
      }
      o.result = {result, 0};
    });
  }
  if (operation != ACTIVE_MASK) join_clocks(w, mask);
}

// Carries out one collective whose lanes have all arrived. False when none is ready.
static bool try_collective(Warp& w) {
  for (uint32_t left = w.at_collective; left;) {
    Lane& lane = w.lanes[__builtin_ctz(left)];
    bool active = lane.operation == ACTIVE_MASK;
    // A mask may name lanes that have exited: they take no part.
    uint32_t want = active ? 0 : lane.mask & w.unfinished();
    uint32_t same = 0;
    each_lane(w, w.at_collective, [&](Lane& o) {
      if (o.operation == lane.operation && (active ? o.pc == lane.pc : o.mask == lane.mask)) same |= 1u << o.number;
    });
    left &= ~same;
    if (active) want = same;
    else if (!(lane.mask >> lane.number & 1)) {
      if (auto* r = report(OPTIML_BAD_WARP_MASK, lane.pc, 0, 0, lane.thread, w.block->number)) r->detail = lane.mask;
      want |= 1u << lane.number;
    }
    if ((want & same) != want) continue;
    E.statistics.collectives++;
    finish_collective(w, lane, want);
    w.at_collective &= ~want;
    w.runnable = want;
    return true;
  }
  return false;
}
