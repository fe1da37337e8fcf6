//// thread blocks and tiles
//// launch 1, 64
//// argument zeros(64, i32)
//// argument zeros(64, i32)
//// argument zeros(64, i32)
//// expect 0 = np.repeat(np.arange(64).reshape(-1, 8).sum(1), 8)
//// expect 1 = np.arange(64) % 8 * 100 + np.arange(64) // 8
//// expect 2 = np.arange(64)[::-1]
namespace cg = cooperative_groups;
__global__ void k(int* sum, int* ranks, int* turned) {
  __shared__ int s[64];
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  int t = block.thread_rank(), v = t;
  for (int d = tile.size() / 2; d > 0; d /= 2) v += tile.shfl_down(v, d);
  sum[t] = tile.shfl(v, 0);
  ranks[t] = tile.thread_rank() * 100 + tile.meta_group_rank();
  s[t] = t;
  block.sync();
  turned[t] = s[block.size() - 1 - t];
}

//// reduce, scan and votes of tiles
//// launch 1, 64
//// argument floats(64)
//// argument zeros(64)
//// argument zeros(64)
//// argument zeros(64, u32)
//// expect 1 = np.repeat(a[0].reshape(4, 16).sum(1), 16)
//// expect 2 = a[0].reshape(4, 16).cumsum(1).reshape(-1)
//// expect 3 = np.array([0x7 if i < 16 else 0xf00 if i < 32 else 0 for i in range(64)], u32)
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
using namespace cooperative_groups;
__global__ void k(const float* a, float* r, float* s, unsigned* b) {
  auto tile = tiled_partition<16>(this_thread_block());
  int t = threadIdx.x;
  r[t] = reduce(tile, a[t], plus<float>());
  s[t] = inclusive_scan(tile, a[t], plus<float>());
  b[t] = tile.ballot(t < 3 || (t >= 24 && t < 28));
}

//// tiles of tiles
//// launch 1, 32
//// argument zeros(32, i32)
//// expect 0 = np.arange(32) // 4 * 4 + 3
namespace cg = cooperative_groups;
__global__ void k(int* o) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto quad = cg::tiled_partition<4>(warp);
  o[threadIdx.x] = cg::reduce(quad, (int)warp.thread_rank(), cg::greater<int>());
}

//// aggregated atomics of the coalesced threads
//// launch 1, 32
//// argument ints(32, 0, 1)
//// argument zeros(32, i32)
//// argument zeros(1, i32)
//// expect 1 = np.concatenate([np.arange(0, 32, 3), np.zeros(21)]).astype(i32)
//// expect 2 = np.array([11])
namespace cg = cooperative_groups;
__device__ int next(int* count) {
  cg::coalesced_group g = cg::coalesced_threads();
  int base;
  if (g.thread_rank() == 0) base = atomicAdd(count, (int)g.size());
  return g.shfl(base, 0) + g.thread_rank();
}
__global__ void k(const int* a, int* o, int* count) { int v = a[threadIdx.x]; if (v % 3 == 0) o[next(count)] = v; }

//// a barrier of the whole grid
//// launch 8, 64
//// argument ints(512, 1, 1)
//// argument zeros(512, i32)
//// argument zeros(512, i32)
//// expect 1 = (a[0] * 2)
//// expect 2 = (a[0] * 2)[::-1] + 1
namespace cg = cooperative_groups;
__global__ void k(const int* a, int* b, int* c) {
  __shared__ int kept;
  cg::grid_group grid = cg::this_grid();
  int i = grid.thread_rank();
  if (threadIdx.x == 0) kept = blockIdx.x;
  b[i] = a[i] * 2;
  grid.sync();
  c[i] = b[grid.size() - 1 - i] + (kept == blockIdx.x);
}

//// a group of a kind known only at run time
//// launch 1, 64
//// argument zeros(64, i32)
//// expect 0 = np.where(np.arange(64) % 32 == 0, 32, 0) + np.where(np.arange(64) == 0, 64, 0)
namespace cg = cooperative_groups;
__device__ int count(cg::thread_group g, int* s) {
  if (g.thread_rank() == 0) *s = 0;
  g.sync();
  atomicAdd(s, 1);
  g.sync();
  int v = *s;
  g.sync();
  return g.thread_rank() == 0 ? v : 0;
}
__global__ void k(int* o) {
  __shared__ int s[3];
  cg::thread_block b = cg::this_thread_block();
  int v = count(b, s);
  o[threadIdx.x] = v + count(cg::tiled_partition(b, 32), s + 1 + threadIdx.x / 32);
}

//// partitions by a predicate and by a label
//// launch 1, 32
//// argument zeros(32, i32)
//// argument zeros(32, i32)
//// expect 0 = np.array([8 if i < 8 else 24 for i in range(32)])
//// expect 1 = np.array([11, 11, 10] * 10 + [11, 11])
namespace cg = cooperative_groups;
__global__ void k(int* o, int* p) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  o[threadIdx.x] = cg::binary_partition(warp, threadIdx.x < 8).size();
  p[threadIdx.x] = cg::labeled_partition(warp, threadIdx.x % 3).size();
}
