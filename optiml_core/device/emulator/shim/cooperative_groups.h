// cooperative_groups.h - thread blocks, tiles, coalesced groups and the grid.
#pragma once
namespace cooperative_groups {
OPTIML_INLINE unsigned optiml_lane_mask_before() { return (1u << optiml_device_lane()) - 1; }

// Part of a warp: the lanes of `mask`. The common base of tiles and coalesced groups.
class optiml_warp_part {
 protected:
  unsigned mask;
  OPTIML_METHOD explicit optiml_warp_part(unsigned m) : mask(m) {}
  // The lane number of the member with rank r.
  OPTIML_METHOD int lane_of(unsigned r) const {
    unsigned m = mask;
    for (; r && (m & (m - 1)); r--) m &= m - 1;
    return __builtin_ctz(m);
  }
  // Lanes' bits to members' bits.
  OPTIML_METHOD unsigned pack(unsigned lanes) const {
    unsigned r = 0; int k = 0;
    for (unsigned m = mask; m; m &= m - 1, k++) r |= (lanes >> __builtin_ctz(m) & 1u) << k;
    return r;
  }
 public:
  OPTIML_METHOD unsigned optiml_mask() const { return mask; }
  OPTIML_METHOD void sync() const { __syncwarp(mask); }
  OPTIML_METHOD unsigned thread_rank() const { return (unsigned)__builtin_popcount(mask & optiml_lane_mask_before()); }
  OPTIML_METHOD unsigned size() const { return (unsigned)__builtin_popcount(mask); }
  OPTIML_METHOD unsigned num_threads() const { return size(); }
  template <class T> OPTIML_METHOD T shfl(T v, unsigned rank) const { return __shfl_sync(mask, v, lane_of(rank % size())); }
  template <class T> OPTIML_METHOD T shfl_up(T v, unsigned by) const {
    unsigned r = thread_rank();
    return __shfl_sync(mask, v, lane_of(r >= by ? r - by : r));
  }
  template <class T> OPTIML_METHOD T shfl_down(T v, unsigned by) const {
    unsigned r = thread_rank();
    return __shfl_sync(mask, v, lane_of(r + by < size() ? r + by : r));
  }
  template <class T> OPTIML_METHOD T shfl_xor(T v, unsigned by) const {
    unsigned r = thread_rank() ^ by;
    return __shfl_sync(mask, v, lane_of(r < size() ? r : thread_rank()));
  }
  OPTIML_METHOD int any(int p) const { return __any_sync(mask, p); }
  OPTIML_METHOD int all(int p) const { return __all_sync(mask, p); }
  OPTIML_METHOD unsigned ballot(int p) const { return pack(__ballot_sync(mask, p)); }
  template <class T> OPTIML_METHOD unsigned match_any(T v) const { return pack(__match_any_sync(mask, v)); }
  template <class T> OPTIML_METHOD unsigned match_all(T v, int& p) const { return pack(__match_all_sync(mask, v, &p)); }
};

class coalesced_group : public optiml_warp_part {
 public:
  OPTIML_METHOD explicit coalesced_group(unsigned m) : optiml_warp_part(m) {}
  OPTIML_METHOD unsigned meta_group_rank() const { return 0; }
  OPTIML_METHOD unsigned meta_group_size() const { return 1; }
};
OPTIML_INLINE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

class thread_block {
 public:
  typedef unsigned index_type;
  static constexpr unsigned optiml_rank = 0;
  OPTIML_METHOD void sync() const { optiml_device_barrier(0, 3, 0); }
  OPTIML_METHOD unsigned thread_rank() const { return optiml_device_thread(); }
  OPTIML_METHOD unsigned size() const { return blockDim.x * blockDim.y * blockDim.z; }
  OPTIML_METHOD unsigned num_threads() const { return size(); }
  OPTIML_METHOD dim3 group_index() const { return blockIdx; }
  OPTIML_METHOD dim3 thread_index() const { return threadIdx; }
  OPTIML_METHOD dim3 group_dim() const { return blockDim; }
  OPTIML_METHOD dim3 dim_threads() const { return blockDim; }
};
OPTIML_INLINE thread_block this_thread_block() { return {}; }

class grid_group {
 public:
  OPTIML_METHOD void sync() const { optiml_device_barrier(0, 4, 0); }
  OPTIML_METHOD bool is_valid() const { return true; }
  OPTIML_METHOD unsigned long long block_rank() const {
    return blockIdx.x + (unsigned long long)gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z); }
  OPTIML_METHOD unsigned long long num_blocks() const { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  OPTIML_METHOD unsigned long long thread_rank() const { return block_rank() * thread_block().size() + optiml_device_thread(); }
  OPTIML_METHOD unsigned long long size() const { return num_blocks() * thread_block().size(); }
  OPTIML_METHOD unsigned long long num_threads() const { return size(); }
  OPTIML_METHOD dim3 group_dim() const { return gridDim; }
  OPTIML_METHOD dim3 dim_blocks() const { return gridDim; }
  OPTIML_METHOD dim3 block_index() const { return blockIdx; }
};
OPTIML_INLINE grid_group this_grid() { return {}; }

template <unsigned N, class Parent = void> class thread_block_tile : public optiml_warp_part {
  static_assert(N <= 32 && (N & (N - 1)) == 0, "the emulator runs tiles of 1, 2, 4, 8, 16 or 32 threads");
  unsigned rank, count;
 public:
  OPTIML_METHOD thread_block_tile(unsigned m, unsigned meta_rank, unsigned meta_size) : optiml_warp_part(m), rank(meta_rank), count(meta_size) {}
  template <class Other> OPTIML_METHOD thread_block_tile(const thread_block_tile<N, Other>& t)
      : optiml_warp_part(t.optiml_mask()), rank(t.meta_group_rank()), count(t.meta_group_size()) {}
  // Tiles are aligned runs of lanes: cheaper forms of what the base does for any mask.
  OPTIML_METHOD unsigned thread_rank() const { return (unsigned)optiml_device_lane() & (N - 1); }
  static constexpr OPTIML_METHOD unsigned size() { return N; }
  static constexpr OPTIML_METHOD unsigned num_threads() { return N; }
  OPTIML_METHOD unsigned meta_group_rank() const { return rank; }
  OPTIML_METHOD unsigned meta_group_size() const { return count; }
  template <class T> OPTIML_METHOD T shfl(T v, int r) const { return __shfl_sync(this->mask, v, r, N); }
  template <class T> OPTIML_METHOD T shfl_up(T v, unsigned by) const { return __shfl_up_sync(this->mask, v, by, N); }
  template <class T> OPTIML_METHOD T shfl_down(T v, unsigned by) const { return __shfl_down_sync(this->mask, v, by, N); }
  template <class T> OPTIML_METHOD T shfl_xor(T v, unsigned by) const { return __shfl_xor_sync(this->mask, v, (int)by, N); }
};
template <unsigned N> OPTIML_METHOD unsigned optiml_tile_mask() {
  unsigned threads = thread_block().size(), first = optiml_device_thread() / N * N, shift = (unsigned)optiml_device_lane() / N * N;
  unsigned n = threads - first < N ? threads - first : N;
  return (n >= 32 ? ~0u : (1u << n) - 1) << shift;
}
template <unsigned N> OPTIML_METHOD thread_block_tile<N, thread_block> tiled_partition(const thread_block& b) {
  return {optiml_tile_mask<N>(), optiml_device_thread() / N, (b.size() + N - 1) / N};
}
template <unsigned N, unsigned M, class P> OPTIML_METHOD thread_block_tile<N, thread_block_tile<M, P>> tiled_partition(const thread_block_tile<M, P>& t) {
  static_assert(N <= M, "a tile is split into smaller ones");
  return {optiml_tile_mask<N>() & t.optiml_mask(), t.thread_rank() / N, M / N};
}
OPTIML_INLINE coalesced_group optiml_pick_members(const optiml_warp_part& g, unsigned first, unsigned n) {
  unsigned part = 0; unsigned k = 0;
  for (unsigned m = g.optiml_mask(); m; m &= m - 1, k++) if (k >= first && k < first + n) part |= m & -m;
  return coalesced_group(part);
}
OPTIML_INLINE coalesced_group tiled_partition(const coalesced_group& g, unsigned n) { return optiml_pick_members(g, g.thread_rank() / n * n, n); }

// A group of a kind known only when the program runs: a block, or part of a warp.
class thread_group {
  bool block; unsigned mask;
 public:
  OPTIML_METHOD thread_group(const thread_block&) : block(true), mask(0) {}
  OPTIML_METHOD thread_group(const optiml_warp_part& p) : block(false), mask(p.optiml_mask()) {}
  OPTIML_METHOD void sync() const { if (block) optiml_device_barrier(0, 3, 0); else __syncwarp(mask); }
  OPTIML_METHOD unsigned thread_rank() const { return block ? optiml_device_thread() : coalesced_group(mask).thread_rank(); }
  OPTIML_METHOD unsigned size() const { return block ? thread_block().size() : coalesced_group(mask).size(); }
  OPTIML_METHOD unsigned num_threads() const { return size(); }
};
OPTIML_INLINE thread_group tiled_partition(const thread_group& g, unsigned n) {
  unsigned first = g.thread_rank() / n * n, lane = (unsigned)optiml_device_lane(), shift = lane - (g.thread_rank() - first);
  unsigned left = g.size() - first, count = left < n ? left : n;
  return coalesced_group((count >= 32 ? ~0u : (1u << count) - 1) << shift);
}
OPTIML_INLINE thread_group tiled_partition(const thread_block& b, unsigned n) { return tiled_partition(thread_group(b), n); }
template <class G> OPTIML_METHOD coalesced_group binary_partition(const G& g, bool p) {
  unsigned yes = __ballot_sync(g.optiml_mask(), p);
  return coalesced_group(p ? yes : g.optiml_mask() & ~yes);
}
template <class G> OPTIML_METHOD coalesced_group labeled_partition(const G& g, int label) { return coalesced_group(__match_any_sync(g.optiml_mask(), label)); }
template <class G> OPTIML_METHOD void sync(const G& g) { g.sync(); }
template <class G> OPTIML_METHOD auto thread_rank(const G& g) { return g.thread_rank(); }
template <class G> OPTIML_METHOD auto group_size(const G& g) { return g.size(); }
}
