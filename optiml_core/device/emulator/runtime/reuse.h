// reuse.h - how far back a block's sectors were last touched, counted in distinct 128-byte lines.
//
// With least-recently-used replacement, a cache of C lines misses exactly the touches whose distance is
// C or more (Mattson et al., "Evaluation Techniques for Storage Hierarchies", 1970), so one run tells the
// misses of every size. A sector is still there if its line was not thrown out since the sector's own
// last touch. The distance is a sum over a Fenwick tree indexed by the time of each line's last touch.
#pragma once
#include "state.h"

struct ReuseLine {
  uint64_t line;        // address / 128, plus one; 0: a free slot
  uint32_t block;       // times below are valid for this block's stamp only
  uint32_t time;        // of the line's last touch
  uint32_t sector_time[4];
  uint32_t warp;        // that touched the line last
  uint32_t seen;        // bit s: some block of this run touched sector s
};

struct Reuse {
  std::vector<ReuseLine> table; size_t used;
  std::vector<uint32_t> tree; uint32_t time, stamp, lines;  // lines: distinct ones of this block so far
  bool full;            // the table reached its limit: nothing more is watched
};
static Reuse R;

constexpr size_t REUSE_LIMIT = 1 << 23;  // slots, 320 MiB; a block that touches 512 MiB is beyond any cache
constexpr uint32_t REUSE_TIMES = 1 << 21;

static void reuse_start_launch() {
  R.table.assign(1 << 14, ReuseLine{}); R.used = 0;
  R.tree.assign(REUSE_TIMES + 1, 0);
  R.time = 0; R.stamp = 0; R.lines = 0; R.full = false;
}
static void reuse_start_block() {
  if (R.time) std::fill(R.tree.begin(), R.tree.end(), 0);
  R.time = 0; R.lines = 0; R.stamp++;
}

static inline void tree_add(uint32_t at, uint32_t value) { for (; at <= REUSE_TIMES; at += at & -at) R.tree[at] += value; }
static inline uint32_t tree_sum(uint32_t at) { uint32_t s = 0; for (; at; at -= at & -at) s += R.tree[at]; return s; }

static size_t reuse_slot(const std::vector<ReuseLine>& table, uint64_t key) {
  size_t mask = table.size() - 1, h = (key * 0x9E3779B97F4A7C15ull) >> 32 & mask;
  while (table[h].line && table[h].line != key) h = (h + 1) & mask;
  return h;
}

static void reuse_grow() {
  if (R.table.size() >= REUSE_LIMIT) { R.full = true; return; }
  std::vector<ReuseLine> larger(R.table.size() * 2, ReuseLine{});
  for (auto& entry : R.table) if (entry.line) larger[reuse_slot(larger, entry.line)] = entry;
  R.table.swap(larger);
}

// The clock ran out: number the lines of this block anew in the order of their last touch.
static void reuse_renumber() {
  std::vector<ReuseLine*> live;
  for (auto& entry : R.table) if (entry.line && entry.block == R.stamp) live.push_back(&entry);
  if (live.size() > REUSE_TIMES / 2) { R.full = true; return; }
  for (auto* entry : live)
    for (auto& t : entry->sector_time) if (t) t = std::max(1u, tree_sum(t));  // lines not newer than the touch: its rank
  std::sort(live.begin(), live.end(), [](ReuseLine* a, ReuseLine* b) { return a->time < b->time; });
  std::fill(R.tree.begin(), R.tree.end(), 0);
  R.time = 0;
  for (auto* entry : live) { entry->time = ++R.time; tree_add(R.time, 1); }
}

// One request's distinct sectors (sorted addresses / 32, `count` of them with duplicates).
static void watch_reuse(OptimlSite& site, const uintptr_t* sectors, int count, uint32_t warp) {
  uint64_t worst = 0; bool any = false, cold = false, other = false;
  for (int i = 0; i < count && !R.full;) {
    uint64_t key = (sectors[i] >> 2) + 1;
    if (R.used * 2 >= R.table.size()) { reuse_grow(); if (R.full) break; }
    if (R.time + 1 >= REUSE_TIMES) { reuse_renumber(); if (R.full) break; }
    ReuseLine& entry = R.table[reuse_slot(R.table, key)];
    if (!entry.line) { entry.line = key; entry.seen = 0; R.used++; entry.block = ~0u; }
    bool fresh = entry.block != R.stamp;
    if (fresh) {
      entry.block = R.stamp; entry.time = 0;
      for (auto& t : entry.sector_time) t = 0;
      R.lines++;
    }
    uint32_t before = entry.time;
    other |= !fresh && entry.warp != warp;
    entry.warp = warp;
    uint64_t distance[4]; int n = 0; uint32_t touched = 0;
    uintptr_t previous = ~(uintptr_t)0;
    for (; i < count && (sectors[i] >> 2) + 1 == key; i++) {
      if (sectors[i] == previous) continue;
      previous = sectors[i];
      int s = (int)(sectors[i] & 3);
      uint32_t t = entry.sector_time[s];
      // Lines touched after time t, this one not counted.
      uint64_t d = !t ? ~0ull : t == R.time ? 0 : (R.lines - (fresh ? 1 : 0)) - tree_sum(t) - (before > t ? 1 : 0);
      distance[n++] = d; touched |= 1u << s;
      if (!(entry.seen >> s & 1)) { entry.seen |= 1u << s; site.distinct_sectors++; }
    }
    if (before) tree_add(before, (uint32_t)-1);
    entry.time = ++R.time;
    tree_add(entry.time, 1);
    for (int s = 0; s < 4; s++) if (touched >> s & 1) entry.sector_time[s] = entry.time;
    for (int k = 0; k < n; k++) {
      any = true;
      if (distance[k] == ~0ull) { cold = true; site.sector_reuse[OPTIML_REUSE_CURVE - 1]++; }
      else worst = std::max(worst, distance[k]);
      for (int e = 0; e < OPTIML_REUSE_CURVE - 1 && (distance[k] >> e); e++) site.sector_reuse[e]++;
    }
  }
  if (!any) return;
  site.other_warp += other;
  if (cold) { for (auto& c : site.request_reuse) c++; return; }
  for (int e = 0; e < OPTIML_REUSE_CURVE - 1 && (worst >> e); e++) site.request_reuse[e]++;
}
