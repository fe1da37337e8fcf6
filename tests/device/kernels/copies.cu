//// cp.async by the pipeline primitives, two stages deep
//// launch 1, 32
//// argument floats(32 * 4 * 8)
//// argument zeros(32 * 4)
//// expect 1 = a[0].reshape(8, 128).sum(0)
#include <cuda_pipeline.h>
__global__ void k(const float4* a, float4* o) {
  __shared__ float4 s[2][32];
  int t = threadIdx.x;
  __pipeline_memcpy_async(&s[0][t], &a[t], 16);
  __pipeline_commit();
  float4 sum = make_float4(0, 0, 0, 0);
  for (int i = 0; i < 8; i++) {
    if (i + 1 < 8) __pipeline_memcpy_async(&s[(i + 1) % 2][t], &a[(i + 1) * 32 + t], sizeof(float4));
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 v = s[i % 2][t];
    sum.x += v.x; sum.y += v.y; sum.z += v.z; sum.w += v.w;
    __syncthreads();
  }
  o[t] = sum;
}

//// a tail filled with zeros
//// launch 1, 4
//// argument floats(14)
//// argument zeros(16)
//// expect 1 = np.concatenate([a[0], [0, 0]]).astype(f32)
__global__ void k(const float* a, float* o) {
  __shared__ float4 s[4];
  int t = threadIdx.x, missing = t == 3 ? 8 : 0;
  __pipeline_memcpy_async(&s[t], (const float4*)a + t, 16, missing);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  float4 v = s[t];
  ((float4*)o)[t] = v;
}

//// a block's copy with cooperative groups
//// launch 2, 64
//// argument floats(512)
//// argument zeros(512)
//// expect 1 = a[0].reshape(2, 256)[:, ::-1].reshape(-1)
namespace cg = cooperative_groups;
__global__ void k(const float* a, float* o) {
  __shared__ float s[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, s, a + blockIdx.x * 256, sizeof(float) * 256);
  cg::wait(block);
  for (int i = threadIdx.x; i < 256; i += 64) o[blockIdx.x * 256 + i] = s[255 - i];
}

//// cuda::barrier: arrive, work, wait
//// launch 1, 64
//// argument floats(64)
//// argument zeros(64)
//// expect 1 = a[0][::-1] + a[0]
#include <cuda/barrier>
__global__ void k(const float* a, float* o) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ float s[64];
  int t = threadIdx.x;
  if (t == 0) init(&bar, blockDim.x);
  __syncthreads();
  s[t] = a[t];
  auto token = bar.arrive();
  float mine = a[t];
  bar.wait(cuda::std::move(token));
  o[t] = s[63 - t] + mine;
}

//// memcpy_async to a cuda::barrier
//// launch 1, 64
//// argument floats(256)
//// argument zeros(256)
//// expect 1 = a[0][::-1]
__global__ void k(const float* a, float* o) {
  using barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ barrier bar;
  __shared__ alignas(16) float s[256];
  auto block = cooperative_groups::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, block.size());
  block.sync();
  cuda::memcpy_async(block, s, a, cuda::aligned_size_t<16>(sizeof(float) * 256), bar);
  bar.arrive_and_wait();
  for (int i = threadIdx.x; i < 256; i += 64) o[i] = s[255 - i];
}

//// producers and consumers over two cuda::barriers
//// launch 1, 64
//// argument floats(32 * 6)
//// argument zeros(32)
//// expect 1 = a[0].reshape(6, 32).sum(0)
__global__ void k(const float* a, float* o) {
  __shared__ cuda::barrier<cuda::thread_scope_block> full, empty;
  __shared__ float s[32];
  if (threadIdx.x == 0) { init(&full, 64); init(&empty, 64); }
  __syncthreads();
  int lane = threadIdx.x & 31;
  if (threadIdx.x < 32) {
    for (int i = 0; i < 6; i++) { empty.arrive_and_wait(); s[lane] = a[i * 32 + lane]; full.arrive(); }
  } else {
    float sum = 0;
    empty.arrive();
    for (int i = 0; i < 6; i++) { full.arrive_and_wait(); sum += s[31 - lane]; if (i < 5) empty.arrive(); }
    o[31 - lane] = sum;
  }
}

//// a cuda::pipeline of one thread
//// launch 1, 32
//// argument floats(128)
//// argument zeros(32)
//// expect 1 = a[0].reshape(4, 32).sum(0)
#include <cuda/pipeline>
__global__ void k(const float* a, float* o) {
  __shared__ float s[2][32];
  auto pipe = cuda::make_pipeline();
  int t = threadIdx.x; float sum = 0;
  for (int i = 0; i < 2; i++) { pipe.producer_acquire(); cuda::memcpy_async(&s[i][t], a + i * 32 + t, sizeof(float), pipe); pipe.producer_commit(); }
  for (int i = 0; i < 4; i++) {
    pipe.consumer_wait();
    sum += s[i % 2][t];
    pipe.consumer_release();
    pipe.producer_acquire();
    if (i + 2 < 4) cuda::memcpy_async(&s[i % 2][t], a + (i + 2) * 32 + t, sizeof(float), pipe);
    pipe.producer_commit();
  }
  o[t] = sum;
}

//// a cuda::pipeline of a block
//// launch 1, 64
//// argument floats(64 * 5)
//// argument zeros(64)
//// expect 1 = a[0].reshape(5, 64).sum(0)[::-1]
__global__ void k(const float* a, float* o) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ float s[2][64];
  auto block = cooperative_groups::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  float sum = 0; int next = 0;
  for (int i = 0; i < 5; i++) {
    for (; next < 5 && next < i + 2; next++) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[next % 2], a + next * 64, sizeof(float) * 64, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += s[i % 2][63 - threadIdx.x];
    pipe.consumer_release();
  }
  o[threadIdx.x] = sum;
}

//// a pipeline's wait for all but the latest copies
//// launch 1, 32
//// argument floats(64)
//// argument zeros(64)
//// expect 1 = a[0]
__global__ void k(const float* a, float* o) {
  __shared__ float s[64];
  auto pipe = cuda::make_pipeline();
  int t = threadIdx.x;
  pipe.producer_acquire(); cuda::memcpy_async(&s[t], a + t, sizeof(float), pipe); pipe.producer_commit();
  pipe.producer_acquire(); cuda::memcpy_async(&s[t + 32], a + t + 32, sizeof(float), pipe); pipe.producer_commit();
  cuda::pipeline_consumer_wait_prior<1>(pipe);
  o[t] = s[t];
  cuda::pipeline_consumer_wait_prior<0>(pipe);
  o[t + 32] = s[t + 32];
}
