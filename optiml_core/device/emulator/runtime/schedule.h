// schedule.h - who runs next: lanes of a warp in lock-step, warps of a block in turn.
#pragma once
#include "collectives.h"
#include "counts.h"
#include "fibers.h"

// All lanes stop at each access; the deepest, then lowest, program counter goes first, so that
// lanes that diverged meet again behind the branch, as on the device.
static bool decide(Warp& w) {
  uintptr_t pc = ~(uintptr_t)0, depth = 0; uint32_t group = 0, waiting = 0;
  for (uint32_t i = 0; i < w.lanes; i++) {
    Lane& l = E.lanes[w.first + i];
    waiting += l.state != FINISHED;
    if (l.state != AT_ACCESS) continue;
    if (!group || l.depth > depth || (l.depth == depth && l.pc < pc)) { pc = l.pc; depth = l.depth; group = 1u << i; }
    else if (l.depth == depth && l.pc == pc) group |= 1u << i;
  }
  if (!group) return try_collective(w);
  E.statistics.warp_steps++;
  E.statistics.divergent_steps += (uint32_t)__builtin_popcount(group) != waiting;
  for (uint32_t left = group; left;) {  // one site may touch two spaces (generic pointers): split by site
    uint16_t site = E.lanes[w.first + __builtin_ctz(left)].site; uint32_t same = 0;
    for (uint32_t m = left; m; m &= m - 1)
      if (E.lanes[w.first + __builtin_ctz(m)].site == site) same |= m & -m;
    count_request(same, w);
    left &= ~same;
  }
  for (uint32_t m = group; m; m &= m - 1) E.lanes[w.first + __builtin_ctz(m)].state = RUNNING;
  w.runnable = group;
  return true;
}

static void run_next(Lane* self) {
  for (;;) {
    Warp& w = *E.warp;
    if (w.runnable && !E.stopped) {
      Lane* next = &E.lanes[w.first + __builtin_ctz(w.runnable)];
      w.runnable &= w.runnable - 1;
      E.current = next;
      if (next == self) return;
      E.statistics.switches++;
      optiml_switch(&self->stack_pointer, next->stack_pointer);
      return;
    }
    // Back to the block's scheduler when nothing here can go on, and now and then in any case, so
    // that a warp that spins on memory does not keep the one it waits for from running. Where caches are
    // watched, warps take turns as often as they do on a device, which switches at every wait for memory.
    if (E.stopped || !decide(w) || (++w.slice & (E.options.traffic ? 1 : 8191)) == 0) {
      E.statistics.switches++;
      optiml_switch(&self->stack_pointer, E.scheduler);
      return;
    }
  }
}

static void lane_main() {
  E.entry(E.arguments);
  E.current->state = FINISHED;
  run_next(E.current);
  abort();
}

[[noreturn]] static void end_lane(Lane* lane) { lane->state = FINISHED; run_next(lane); abort(); }
[[noreturn]] static void stop_launch(Lane* lane) {
  E.stopped = true;
  optiml_switch(&lane->stack_pointer, E.scheduler);
  abort();
}

static void start_block(uint32_t warps) {
  uint32_t i = 0;
  for (uint32_t z = 0; z < E.block.z; z++)
    for (uint32_t y = 0; y < E.block.y; y++)
      for (uint32_t x = 0; x < E.block.x; x++, i++) {
        Lane& l = E.lanes[i];
        l.state = RUNNING; l.thread = i; l.index = {x, y, z}; l.number = i & 31; l.warp_sync = 0;
        l.stack_top = E.stacks + STACK_BYTES * (i + 1) - 64 - (i & 31) * STACK_STAGGER;
        l.stack_pointer = new_stack(l.stack_top, lane_main);
      }
  for (uint32_t w = 0; w < warps; w++) {
    uint32_t n = std::min<uint32_t>(32, E.thread_count - w * 32);
    E.warps[w] = {w * 32, n, n == 32 ? ~0u : (1u << n) - 1, 0};
  }
}

static uint64_t next_random(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}
static void permute(std::vector<uint32_t>& order, uint64_t& random) {
  for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[next_random(random) % i]);
}

static bool release_barrier() {
  uint32_t finished = 0, waiting = 0; uint64_t count = 0, all = 1, any = 0; Lane* first = nullptr;
  for (auto& l : E.lanes) {
    finished += l.state == FINISHED;
    if (l.state != AT_BARRIER) continue;
    waiting++;
    if (!first) first = &l;
    count += l.value.low; all &= l.value.low; any |= l.value.low;
  }
  if (!waiting || waiting + finished != E.thread_count) return false;
  for (auto& l : E.lanes)
    if (l.state == AT_BARRIER && l.mask != first->mask) {
      report(OPTIML_DIVERGENT_BARRIER, first->pc, l.pc, 0, l.thread, E.block_number);
      break;
    }
  E.statistics.barriers++;
  ++E.epoch;
  for (auto& w : E.warps) w.runnable = 0;
  for (auto& l : E.lanes)
    if (l.state == AT_BARRIER) {
      l.state = RUNNING;
      E.warps[l.thread / 32].runnable |= 1u << l.number;
      l.result.low = l.operation == BARRIER_COUNT ? count : l.operation == BARRIER_AND ? all : any;
    }
  return true;
}

// Runs one block to its end. False when the launch has to stop.
static bool run_block(const std::vector<uint32_t>& warp_order) {
  for (;;) {
    bool moved = false;
    for (uint32_t i : warp_order) {
      Warp& w = E.warps[i];
      if (!w.runnable && !decide(w)) continue;
      moved = true;
      E.warp = &w;
      E.current = &E.lanes[w.first + __builtin_ctz(w.runnable)];
      w.runnable &= w.runnable - 1;
      E.statistics.switches++;
      optiml_switch(&E.scheduler, E.current->stack_pointer);
      if (E.stopped) return false;
    }
    bool done = true;
    for (auto& l : E.lanes) if (l.state != FINISHED) { done = false; break; }
    if (done) return true;
    if (release_barrier() || moved) continue;
    for (auto& l : E.lanes)
      if (l.state != FINISHED) { report(OPTIML_DEADLOCK, l.pc, 0, 0, l.thread, E.block_number); break; }
    return false;
  }
}
