// counts.h - what one warp-wide request costs, in Nsight Compute's terms.
#pragma once
#include "reuse.h"

static inline int distinct(uintptr_t* v, int n) {
  int d = n > 0;
  for (int i = 1; i < n; i++) {
    if (v[i] < v[i - 1]) {
      std::sort(v, v + n);
      d = 1;
      for (int j = 1; j < n; j++) d += v[j] != v[j - 1];
      return d;
    }
    d += v[i] != v[i - 1];
  }
  return d;
}

// 32 banks of 4 bytes; lanes that want the same word share it, except for atomics.
static void bank_phase(Lane** group, int n, int size, bool share, unsigned& waves, unsigned& degree) {
  uintptr_t words[32 * 4]; int m = 0;
  for (int i = 0; i < n; i++)
    for (int b = 0; b < size; b += 4) words[m++] = (group[i]->address + b) >> 2;
  std::sort(words, words + m);
  if (share) m = (int)(std::unique(words, words + m) - words);
  uint8_t load[32] = {0}; unsigned d = 0;
  for (int i = 0; i < m; i++) d = std::max(d, (unsigned)++load[words[i] & 31]);
  waves += d; degree = std::max(degree, d);
}

static void count_request(uint32_t lanes, Warp& w) {
  Lane* group[32]; int n = 0;
  for (uint32_t m = lanes; m; m &= m - 1) group[n++] = &E.lanes[w.first + __builtin_ctz(m)];
  OptimlSite& s = E.sites[group[0]->site];
  int size = group[0]->size;
  s.requests++; s.lanes += n; s.bytes += (uint64_t)n * size;
  uintptr_t addresses[32];
  for (int i = 0; i < n; i++) addresses[i] = group[i]->address;
  if (s.space != OPTIML_SHARED) {
    uintptr_t sectors[64]; int m = 0;
    for (int i = 0; i < n; i++) {
      sectors[m++] = addresses[i] >> 5;
      uintptr_t last = (addresses[i] + size - 1) >> 5;
      if (last != sectors[m - 1]) sectors[m++] = last;
    }
    s.sectors += distinct(sectors, m);  // sorts them
    int lines = m > 0;
    for (int i = 1; i < m; i++) lines += sectors[i] >> 2 != sectors[i - 1] >> 2;
    s.lines += lines;
    if (E.options.traffic) watch_reuse(s, sectors, m);
    int d = distinct(addresses, n);
    s.ideal_sectors += (d * size + 31) / 32;  // as Nsight Compute: a broadcast needs no more than its own bytes
    if (s.kind == OPTIML_ATOMIC) s.same_address += n - d;
    return;
  }
  unsigned waves = 0, degree = 0, ideal = 0;
  // 8-byte requests go as half warps and 16-byte ones as quarter warps (by lane number).
  int per = size <= 4 ? 32 : size == 8 ? 16 : 8;
  for (int p = 0; p < 32; p += per) {
    Lane* phase[32]; int k = 0;
    for (int i = 0; i < n; i++) if (group[i]->number >= p && group[i]->number < p + per) phase[k++] = group[i];
    if (k) { bank_phase(phase, k, size, s.kind != OPTIML_ATOMIC, waves, degree); ideal++; }
  }
  if (s.kind == OPTIML_ATOMIC) s.same_address += n - distinct(addresses, n);
  s.wavefronts += waves; s.ideal_wavefronts += ideal; s.max_degree = std::max<uint64_t>(s.max_degree, degree);
}
