// counts.h - what one warp-wide request costs, in Nsight Compute's terms.
#pragma once
#include "reuse.h"

static inline int distinct(const uintptr_t* v, int n) {
  int d = n > 0;
  for (int i = 1; i < n; i++) {
    if (v[i] < v[i - 1]) {  // not ascending
      uintptr_t sorted[64];
      memcpy(sorted, v, n * sizeof *v);
      std::sort(sorted, sorted + n);
      return (int)(std::unique(sorted, sorted + n) - sorted);
    }
    d += v[i] != v[i - 1];
  }
  return d;
}

// 32 banks of 4 bytes; lanes that want the same word share it, except for atomics that are not plain counters.
static inline unsigned bank_passes(const uintptr_t* words, int n, bool share) {
  uint8_t load[32] = {0}; uintptr_t seen[32][4]; unsigned most = 0;
  for (int i = 0; i < n; i++) {
    unsigned bank = words[i] & 31, k = 0, have = load[bank];
    if (share) {
      for (; k < have && k < 4; k++) if (seen[bank][k] == words[i]) break;
      if (k < have && k < 4) continue;
      if (have >= 4) {  // the rare crowded bank: look at all earlier words
        int j = 0;
        while (j < i && words[j] != words[i]) j++;
        if (j < i) continue;
      } else {
        seen[bank][have] = words[i];
      }
    }
    most = std::max<unsigned>(most, ++load[bank]);
  }
  return most;
}

static void count_shared(OptimlSite& s, const uintptr_t* addresses, const uint8_t* numbers, int n, int size, bool counts_up) {
  unsigned waves = 0, degree = 0, ideal = 0;
  // 8-byte requests go as half warps and 16-byte ones as quarter warps (by lane number).
  int per = size <= 4 ? 32 : size == 8 ? 16 : 8;
  for (int i = 0; i < n;) {
    uintptr_t words[32]; int m = 0, part = numbers[i] / per;
    for (; i < n && numbers[i] / per == part; i++)
      for (int b = 0; b < size; b += 4) words[m++] = (addresses[i] + b) >> 2;
    unsigned d = bank_passes(words, m, s.kind != OPTIML_ATOMIC || counts_up);
    waves += d; degree = std::max(degree, d); ideal++;
  }
  if (s.kind == OPTIML_ATOMIC) s.same_address += n - distinct(addresses, n);
  s.wavefronts += waves; s.ideal_wavefronts += ideal; s.max_degree = std::max<uint64_t>(s.max_degree, degree);
}

// Distinct sectors over the launch and per block, for the estimate of what caches save.
static void count_traffic(Range* r, const uintptr_t* sectors, int n, int kind) {
  uint32_t mark = E.block->number + 1;
  uintptr_t first = r->low >> 5;
  if (kind != OPTIML_STORE && r->read_by)
    for (int i = 0; i < n; i++) {
      uint32_t& by = r->read_by[sectors[i] - first];
      if (by == mark) continue;
      r->traffic.sectors_read += !by; r->traffic.block_sectors_read++;
      by = mark;
    }
  if (kind != OPTIML_LOAD && r->written_by)
    for (int i = 0; i < n; i++) {
      uint32_t& by = r->written_by[sectors[i] - first];
      if (by == mark) continue;
      r->traffic.sectors_written += !by; r->traffic.block_sectors_written++;
      by = mark;
    }
}

// A launch ends with its longest warp, a block's place becomes free with the longest of the block.
static void count_warp(Warp& w) {
  w.requests++;
  if (w.requests > E.statistics.longest_warp) E.statistics.longest_warp = w.requests;
  if (w.requests > w.block->longest) { w.block->longest = w.requests; E.statistics.longest_in_block++; }
}

static Range* find_range(uintptr_t address, size_t bytes);

static void count_request(Warp& w, uint32_t lanes) {
  uintptr_t addresses[32]; uint8_t numbers[32]; int n = 0;
  OptimlSite& s = E.sites[w.site[__builtin_ctz(lanes)]];
  for (uint32_t m = lanes; m; m &= m - 1) {
    int i = __builtin_ctz(m);
    numbers[n] = (uint8_t)i;
    addresses[n++] = w.address[i];
  }
  count_warp(w);
  int size = s.size;
  s.requests++; s.lanes += n; s.bytes += (uint64_t)n * size;
  bool counts_up = (w.counting_up & lanes) == lanes;
  w.counting_up &= ~lanes;
  if (s.space == OPTIML_SHARED) { count_shared(s, addresses, numbers, n, size, counts_up); return; }
  // An aligned access of at most 16 bytes never crosses a sector.
  uintptr_t sectors[32]; bool ascending = true; int d = 1;  // d: distinct addresses
  sectors[0] = addresses[0] >> 5;
  for (int i = 1; i < n; i++) {
    sectors[i] = addresses[i] >> 5;
    ascending &= addresses[i] >= addresses[i - 1];
    d += addresses[i] != addresses[i - 1];
  }
  if (!ascending) {
    std::sort(sectors, sectors + n);
    d = distinct(addresses, n);
  }
  int different = 1, lines = 1;
  for (int i = 1; i < n; i++) {
    different += sectors[i] != sectors[i - 1];
    lines += sectors[i] >> 2 != sectors[i - 1] >> 2;
  }
  s.sectors += different; s.lines += lines;
  s.ideal_sectors += (d * size + 31) / 32;  // as Nsight Compute: a broadcast needs no more than its own bytes
  if (s.kind == OPTIML_ATOMIC) s.same_address += n - d;
  if (!E.options.traffic) return;
  watch_reuse(s, sectors, n, w.lanes->thread);
  for (int i = 0; i < n; i++) sectors[i] = addresses[i] >> 5;  // in the lanes' order again
  if (Range* r = find_range(addresses[0], size)) {
    // Lanes of one request may go to several buffers through a table of pointers; each in turn.
    for (int i = 0; i < n;) {
      int j = i;
      while (j < n && addresses[j] >= r->low && addresses[j] < r->high) j++;
      count_traffic(r, sectors + i, j - i, s.kind);
      if (j < n && !(r = find_range(addresses[j], size))) break;
      i = j;
    }
  }
}
