// schedule.h - who runs next: lanes of a warp in lock-step, warps of a block in turn.
#pragma once
#include "collectives.h"
#include "counts.h"
#include "fibers.h"

static bool wake_waiting(Warp& w);  // async_copies.h

static uint64_t next_random(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

constexpr uint32_t QUANTUM = 8192;      // warp steps before another warp has its turn
constexpr uint32_t SPINS_ALLOWED = 256;  // strong accesses in a row by one group while another waits

// All lanes stop at each access; the deepest, then lowest, program counter goes first, so that
// lanes that diverged meet again behind the branch, as on the device. A group that seems to spin on
// what a waiting lane of its own warp would do lets the others go first.
static uint32_t choose_group(Warp& w) {
  uint32_t m = w.at_access, first = __builtin_ctz(m);
  uintptr_t pc = w.pc[first]; uint32_t depth = w.depth[first];
  if (m == ~0u) {
    uintptr_t differ = 0;
    for (int i = 0; i < 32; i++) differ |= (w.pc[i] ^ pc) | (w.depth[i] ^ depth);
    if (!differ) return m;
  }
  bool last = w.spins > SPINS_ALLOWED;
  uint32_t group = 0;
  for (; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    bool equal = w.depth[i] == depth && w.pc[i] == pc;
    bool before = w.depth[i] > depth || (w.depth[i] == depth && w.pc[i] < pc);
    if (group && !equal && before != last) { pc = w.pc[i]; depth = w.depth[i]; group = 1u << i; }
    else if (!group || equal) group |= 1u << i;
  }
  w.spins = last ? 0 : w.spins;
  return group;
}

static bool decide(Warp& w) {
  if (!w.at_access) {
    if (try_collective(w) || (w.at_wait && wake_waiting(w))) return true;
    w.runnable = w.yielded;
    w.yielded = 0;
    w.steps += QUANTUM / 16;
    return w.runnable;
  }
  uint32_t group = choose_group(w);
  if (w.site[__builtin_ctz(group)] == MEETING) {  // no instruction, and no turn of the warp either
    w.at_access &= ~group;
    w.runnable = group;
    w.steps--;
    return true;
  }
  E.statistics.warp_steps++;
  E.statistics.divergent_steps += group != w.unfinished();
  for (uint32_t left = group; left;) {  // one instruction may touch two spaces (generic pointers): split by site
    uint16_t site = w.site[__builtin_ctz(left)]; uint32_t same = left;
    for (uint32_t m = left; m; m &= m - 1)
      if (w.site[__builtin_ctz(m)] != site) same &= ~(m & -m);
    count_request(w, same);
    left &= ~same;
  }
  w.at_access &= ~group;
  w.runnable = group;
  return true;
}

static inline int pick(uint32_t mask) { return E.reverse ? 31 - __builtin_clz(mask) : __builtin_ctz(mask); }

static inline void run_next(Lane* self) {
  Warp& w = *E.warp;
  for (;;) {
    if (__builtin_expect(w.runnable != 0, 1)) {
      int i = pick(w.runnable);
      w.runnable &= ~(1u << i);
      Lane* next = &w.lanes[i];
      E.current = next;
      if (next == self) return;
      E.statistics.switches++;
      optiml_switch(&self->stack_pointer, next->stack_pointer);
      return;
    }
    // Back to the block's scheduler when nothing here can go on, and now and then in any case, so
    // that a warp that spins on memory does not keep the one it waits for from running.
    if (!decide(w) || ++w.steps >= w.quantum) {
      E.statistics.switches++;
      optiml_switch(&self->stack_pointer, E.scheduler);
      return;
    }
  }
}

// Lets the other lanes and warps go first: a spinning lane that does not stop at each access.
static __attribute__((noinline)) void yield_lane(Lane* lane) {
  lane->warp->yielded |= 1u << lane->number;
  run_next(lane);
}

static void land_all_copies(Lane* lane);  // async_copies.h

static void lane_main() {
  E.entry(E.arguments);
  land_all_copies(E.current);
  end_lane(E.current);
}

static inline void end_lane [[noreturn]] (Lane* lane) {
  Warp* w = lane->warp;
  w->finished |= 1u << lane->number;
  w->block->finished++;
  // Nothing is put on these stacks before the scheduler, on its own, starts another warp.
  if (w->finished == w->all) E.free_stacks.push_back(w->stacks);
  run_next(lane);
  abort();  // a finished lane is never run again
}
static inline void stop_launch [[noreturn]] (Lane* lane) {
  E.stopped = true;
  optiml_switch(&lane->stack_pointer, E.scheduler);
  abort();
}

// ---- one block --------------------------------------------------------------------------------------

static uint32_t new_epoch(Block* b) {
  // The table of epochs is finite: 64 million barrier intervals a launch.
  if (!epochs.need((E.next_epoch + 1) * sizeof(uint32_t), 1 << 20)) E.out_of_memory = E.stopped = true;
  else E.block_of_epoch[E.next_epoch] = b->number;
  return E.next_epoch++;
}

static void reset_clocks(Warp& w) {
  if (!E.races) return;
  memset(w.clocks, 0, 32 * sizeof *w.clocks);
  for (uint32_t i = 0; i < w.count; i++) w.lanes[i].clock = 1;
}

// What of a block's lanes and warps stays the same from one block in its slot to the next.
static void lay_out_block(Block* b) {
  uint32_t thread = 0; Vector3 index{0, 0, 0};
  for (uint32_t k = 0; k < b->warp_count; k++) {
    Warp& w = b->warps[k];
    w.block = b; w.lanes = b->lanes + thread;
    w.count = std::min<uint32_t>(32, E.thread_count - thread);
    w.all = w.count == 32 ? ~0u : (1u << w.count) - 1;
    for (uint32_t i = 0; i < w.count; i++, thread++) {
      Lane& l = w.lanes[i];
      l.warp = &w; l.thread = thread; l.number = (uint8_t)i; l.index = index;
      if (++index.x == E.dim.x) { index.x = 0; if (++index.y == E.dim.y) { index.y = 0; index.z++; } }
    }
  }
}

static void start_block(Block* b) {
  b->epoch = b->first_epoch = new_epoch(b);
  b->published = b->finished = b->longest = 0;
  b->strong_accesses = 0;
  b->arrivals = nullptr;
  b->state = Block::READY;
  for (uint32_t k = 0; k < b->warp_count; k++) {
    Warp& w = b->warps[k];
    w.runnable = w.all;
    w.fresh = true;
    w.finished = w.at_access = w.at_collective = w.at_barrier = w.at_wait = w.yielded = w.steps = w.spins = w.requests = 0;
    w.counting_up = 0;
    // Where caches are watched, warps take turns as often as they do on a device, which switches at every wait for memory.
    w.quantum = E.options.traffic ? 1 : QUANTUM;
    if (E.options.warp_stride > 1 && k % E.options.warp_stride) {  // as if it had returned at once
      w.finished = w.all; w.runnable = 0; w.fresh = false;
      b->finished += w.count;
    }
  }
}

// Gives a warp its stacks when it first runs; it hands them back when its last lane ends, so that warps
// that never wait for each other run one after another on the same stacks, which stay in the cache.
static bool start_warp(Warp& w) {
  w.fresh = false;
  if (E.free_stacks.empty()) {
    uint32_t next = E.stacks_made++;
    if (!prepare_stacks((size_t)(next + 1) * 32)) { E.out_of_memory = E.stopped = true; return false; }
    E.free_stacks.push_back((uint16_t)next);
  }
  w.stacks = E.free_stacks.back();
  E.free_stacks.pop_back();
  for (uint32_t i = 0; i < w.count; i++) {
    Lane& l = w.lanes[i];
    l.stack_top = (char*)E.stack_low + STACK_BYTES * ((size_t)w.stacks * 32 + i + 1) - 64 - i * STACK_STAGGER;
    l.clock = 1; l.dirty = 0; l.fence_stamp = l.fence_epoch = l.fence_bound = 0;
    l.known = nullptr; l.copies = nullptr;
    l.stack_pointer = new_stack(l.stack_top, lane_main);
  }
  reset_clocks(w);
  return true;
}

static void shuffle_order(uint32_t* order, size_t n) {
  for (size_t i = n; i > 1; i--) std::swap(order[i - 1], order[next_random(E.random) % i]);
}

static bool release_barrier(Block* b) {
  uint32_t waiting = 0, grid = 0; uint64_t count = 0, all = 1, any = 0; Lane* first = nullptr; bool dirty = false;
  const Known* known = nullptr;
  for (uint32_t k = 0; k < b->warp_count; k++) {
    Warp& w = b->warps[k];
    waiting += (uint32_t)__builtin_popcount(w.at_barrier);
    each_lane(w, w.at_barrier, [&](Lane& l) {
      if (!first) first = &l;
      grid += l.operation == BARRIER_GRID;
      count += l.value.low; all &= l.value.low; any |= l.value.low;
      dirty |= l.dirty;
      if (E.fences) known = merge(known, l.known);
      if (l.mask != first->mask || (l.operation == BARRIER_GRID) != (first->operation == BARRIER_GRID))
        report(OPTIML_DIVERGENT_BARRIER, first->pc, l.pc, 0, l.thread, b->number);
      else if (l.pc != first->pc)  // the same place in the source: one barrier that g++ duplicated, unless the callers differ
        if (auto* r = report(OPTIML_DIVERGENT_BARRIER, first->pc, l.pc, 0, l.thread, b->number)) r->detail = 1;
    });
  }
  if (!waiting || waiting + b->finished != E.thread_count) return false;
  E.statistics.barriers++;
  if (E.fences && !dirty) b->published = b->epoch;
  if (grid) { b->state = Block::AT_GRID; return true; }
  b->epoch = E.epoch = new_epoch(b);
  for (uint32_t k = 0; k < b->warp_count; k++) {
    Warp& w = b->warps[k];
    each_lane(w, w.at_barrier, [&](Lane& l) {
      l.result.low = l.operation == BARRIER_COUNT ? count : l.operation == BARRIER_AND ? all : any;
      l.known = known;
    });
    w.runnable = w.at_barrier;
    w.at_barrier = 0;
    reset_clocks(w);
  }
  return true;
}

enum Outcome { BLOCK_DONE, BLOCK_PARKED, LAUNCH_STOPPED };

constexpr uint64_t SPIN_BUDGET = 1 << 16;  // strong accesses of one block before others get their turn

// Runs one block until it ends, waits for the grid, or seems to spin on another block.
static Outcome run_block(Block* b, bool others) {
  uint64_t budget = b->strong_accesses + SPIN_BUDGET;
  for (;;) {
    bool moved = false;
    for (uint32_t k = 0; k < b->warp_count; k++) {
      Warp& w = b->warps[b->order[k]];
      if (!w.runnable && !decide(w)) continue;
      moved = true;
      w.steps = 0;
      if (w.fresh && !start_warp(w)) return LAUNCH_STOPPED;
      if (E.options.schedule && !E.options.traffic) w.quantum = 16 + next_random(E.random) % 1024;
      E.warp = &w;
      int i = pick(w.runnable);
      w.runnable &= ~(1u << i);
      E.current = &w.lanes[i];
      E.statistics.switches++;
      optiml_switch(&E.scheduler, E.current->stack_pointer);
      if (E.stopped) return LAUNCH_STOPPED;
    }
    if (b->finished == E.thread_count) { b->state = Block::DONE; return BLOCK_DONE; }
    if (release_barrier(b)) {
      if (b->state == Block::AT_GRID) return BLOCK_PARKED;
      continue;
    }
    if (moved) {
      if (others && b->strong_accesses > budget) return BLOCK_PARKED;
      continue;
    }
    for (uint32_t k = 0; k < b->warp_count; k++)
      if (uint32_t m = b->warps[k].unfinished()) {
        Lane& l = b->warps[k].lanes[__builtin_ctz(m)];
        report(OPTIML_DEADLOCK, l.pc, 0, 0, l.thread, b->number);
        break;
      }
    return LAUNCH_STOPPED;
  }
}
