//// one past the end
//// launch 1, 64
//// argument floats(50)
//// argument floats(50)
//// argument int(50)
__global__ void k(const float* a, float* b, int n) {
  int i = threadIdx.x;
  if (i <= n) b[i] = a[i];  // ! out-of-bounds
}

//// null pointer
//// launch 1, 32
//// argument ints(32)
__global__ void k(int* f) {
  int* p = nullptr;
  if (threadIdx.x == 3) p[5] = 1;  // ! out-of-bounds
  f[threadIdx.x] = 1;
}

//// no __syncwarp
//// launch 1, 32
//// argument floats(32)
__global__ void k(float* o) {
  __shared__ float s[32]; int t = threadIdx.x;
  s[t] = t;
  o[t] = s[31 - t];  // ! race-in-warp
}

//// no barrier between warps
//// launch 1, 64
//// argument floats(64)
__global__ void k(float* o) {
  __shared__ float s[64]; int t = threadIdx.x;
  s[t] = t;  // ! race-read-write
  __syncwarp();
  o[t] = s[63 - t];  // ! race-read-write, uninitialised-read
}

//// a write after others may still read
//// launch 1, 64
//// argument floats(64)
__global__ void k(float* o) {
  __shared__ float s[64]; int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  float v = s[63 - t];  // ! race-read-write
  s[t] = v;  // ! race-read-write
  __syncthreads();
  o[t] = s[t];
}

//// divergent barrier
//// launch 1, 64
//// argument floats(64)
__global__ void k(float* o) {
  if (threadIdx.x < 40) {
    o[threadIdx.x] = 1;
    __syncthreads();  // ! divergent-barrier
  } else {
    o[threadIdx.x] = 2;
    __syncthreads();
  }
}

//// a shuffle waits for lanes that wait at a barrier
//// launch 1, 32
//// argument ints(1)
__global__ void k(int* f) {
  if (threadIdx.x < 16)
    f[0] = __shfl_down_sync(0xffffffff, 1, 1);  // ! deadlock
  else
    __syncthreads();
}

//// shared memory nobody wrote
//// launch 1, 64
//// argument floats(64)
__global__ void k(float* o) {
  __shared__ float s[64]; int t = threadIdx.x;
  if (t < 32) s[t] = 1;
  __syncthreads();
  o[t] = s[t];  // ! uninitialised-read
}

//// an atomic on shared memory nobody cleared
//// launch 1, 64
//// argument ints(8)
__global__ void k(int* o) {
  __shared__ int s[8]; int t = threadIdx.x;
  atomicAdd(&s[t % 8], 1);  // ! uninitialised-read
  __syncthreads();
  if (t < 8) o[t] = s[t];
}

//// an output read before it is written
//// launch 1, 32 uninitialised=[0]
//// argument floats(32)
__global__ void k(float* o) {
  int t = threadIdx.x;
  o[t] += 1;  // ! uninitialised-read
}

//// misaligned float4
//// launch 1, 1
//// argument floats(8)
__global__ void k(float* o) {
  float4 v = *(float4*)(o + 1);  // ! misaligned
  o[0] = v.x;
}

//// a lane that is not in its own mask
//// launch 1, 32
//// argument ints(32)
__global__ void k(int* o) {
  int t = threadIdx.x;
  if (t < 8)
    o[t] = __shfl_sync(0xf, t, 0);  // ! bad-warp-mask, inactive-shuffle-source
}

//// a shuffle from a lane that takes no part
//// launch 1, 32
//// argument ints(32)
__global__ void k(int* o) {
  int t = threadIdx.x;
  if (t < 8)
    o[t] = __shfl_sync(0xff, t, 9);  // ! inactive-shuffle-source
}

//// two lanes store to one address at once
//// launch 1, 32
//// argument ints(32)
__global__ void k(int* o) {
  o[threadIdx.x / 2] = threadIdx.x;  // ! race-same-instruction
}

//// blocks store to one address
//// launch 4, 32
//// argument ints(32)
__global__ void k(int* o) {
  if (threadIdx.x == 0) o[0] = blockIdx.x;  // ! race-write-write
}

//// a histogram without atomics
//// launch 1, 64
//// argument np.arange(64, dtype=np.int32)
//// argument ints(4)
__global__ void k(const int* a, int* h) {
  h[a[threadIdx.x] & 3] += 1;  // ! race-in-warp, race-read-write, race-same-instruction, race-write-write
}

//// a plain store before the block's own atomic
//// launch 2, 32
//// argument ints(1)
__global__ void k(int* o) {
  if (threadIdx.x == 0) o[0] = 5;  // ! race-write-write
  if (threadIdx.x == 0)
    atomicAdd(o, 1);
}

//// halves of one word, then the whole word, without a barrier
//// launch 1, 64
//// argument np.zeros(64, np.int16)
//// argument ints(1)
__global__ void k(short* o, int* p) {
  __shared__ short s[64]; int t = threadIdx.x;
  s[t] = t;  // ! race-read-write
  __syncwarp();
  if (t == 0)
    p[0] = *(int*)&s[62];  // ! uninitialised-read
}

//// the last block without a fence
//// launch 8, 32
//// argument floats(8)
//// argument floats(8)
//// argument floats(1)
__device__ unsigned count;
__global__ void k(const float* a, float* part, float* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = a[blockIdx.x];
    last = atomicAdd(&count, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float s = 0;
    for (int j = 0; j < gridDim.x; j++)
      s += part[j];  // ! race-read-write
    *out = s;
  }
}

//// the fence before the store
//// launch 8, 32
//// argument floats(8)
//// argument floats(8)
//// argument floats(1)
__device__ unsigned count;
__global__ void k(const float* a, float* part, float* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence();
    part[blockIdx.x] = a[blockIdx.x];
    last = atomicAdd(&count, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float s = 0;
    for (int j = 0; j < gridDim.x; j++)
      s += part[j];  // ! race-read-write
    *out = s;
  }
}

//// too many steps
//// launch 1, 32 steps=100000
//// argument ints(1)
__global__ void k(volatile int* o) {
  while (o[0] == 0)  // ! step-limit
    ;
}

//// a constant is written
//// launch 1, 4
//// argument ints(4)
__constant__ int c[4];
__device__ const int table[4] = {1, 2, 3, 4};
__global__ void k(int* o) {
  int* p = (int*)table;
  p[threadIdx.x] = o[0];  // ! read-only-write
}

//// memset past the end
//// launch 1, 1
//// argument np.zeros(16, np.int8)
//// argument int(17)
__global__ void k(char* o, int n) {
  memset(o, 0, n);  // ! out-of-bounds
}

//// memcpy past the end
//// launch 1, 1
//// argument np.zeros(32, np.int8)
//// argument np.zeros(16, np.int8)
//// argument int(20)
__global__ void k(char* o, const char* a, int n) {
  memcpy(o, a, n);  // ! out-of-bounds
}

//// an asynchronous copy that nobody waits for
//// launch 1, 32
//// argument floats(32)
//// argument floats(32)
__global__ void k(const float* a, float* o) {
  __shared__ float s[32]; int t = threadIdx.x;
  __pipeline_memcpy_async(&s[t], &a[t], 4);
  __pipeline_commit();
  o[t] = s[t];  // ! missing-wait
}

//// a wait that leaves the copy's own group under way
//// launch 1, 32
//// argument floats(32)
//// argument floats(32)
__global__ void k(const float* a, float* o) {
  __shared__ float s[32]; int t = threadIdx.x;
  __pipeline_memcpy_async(&s[t], &a[t], 4);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  __syncthreads();
  o[t] = s[t];  // ! missing-wait
}

//// another thread's asynchronous copy without a barrier after the wait
//// launch 1, 64
//// argument floats(64)
//// argument floats(64)
__global__ void k(const float* a, float* o) {
  __shared__ float s[64]; int t = threadIdx.x;
  __pipeline_memcpy_async(&s[t], &a[t], 4);  // ! race-read-write
  __pipeline_commit();
  __pipeline_wait_prior(0);
  o[t] = s[63 - t];  // ! race-read-write, uninitialised-read
}

//// a stage overwritten while others still read it
//// launch 1, 64
//// argument floats(128)
//// argument floats(64)
__global__ void k(const float* a, float* o) {
  __shared__ float s[64]; int t = threadIdx.x;
  float v = 0;
  for (int i = 0; i < 2; i++) {
    __pipeline_memcpy_async(&s[t], &a[i * 64 + t], 4);  // ! race-read-write
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    v += s[63 - t];  // ! race-read-write
  }
  o[t] = v;
}

//// a cuda::barrier nobody set up
//// launch 1, 32
//// argument floats(32)
__global__ void k(float* o) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  bar.arrive_and_wait();  // ! uninitialised-read
  o[threadIdx.x] = 1;
}

//// a cuda::barrier that expects more than arrive
//// launch 1, 32
//// argument floats(32)
__global__ void k(float* o) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (threadIdx.x == 0) init(&bar, 33);
  __syncthreads();
  bar.arrive_and_wait();  // ! deadlock
}

//// data read before the cuda::barrier's wait
//// launch 1, 64
//// argument floats(64)
__global__ void k(float* o) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ float s[64]; int t = threadIdx.x;
  if (t == 0) init(&bar, 64);
  s[t] = 0;
  __syncthreads();
  s[t] = t;  // ! race-read-write
  auto token = bar.arrive();
  o[t] = s[63 - t];  // ! race-read-write
  bar.wait(static_cast<decltype(token)&&>(token));
}

//// an assertion that fails
//// launch 1, 32
//// argument ints(32, 0, 1)
__global__ void k(int* o) {
  assert(o[threadIdx.x] < 31);  // ! assertion
}

//// a trap
//// launch 1, 32
//// argument ints(32, 0, 1)
__global__ void k(int* o) {
  if (o[threadIdx.x] == 5) __trap();  // ! trap
}

//// one grid barrier for some threads only
//// launch 2, 64
//// argument ints(128)
__global__ void k(int* o) {
  if (threadIdx.x < 32)
    cooperative_groups::this_grid().sync();  // ! divergent-barrier
  else
    __syncthreads();
  o[blockIdx.x * 64 + threadIdx.x] = 1;
}

//// the vector's last element lies outside
//// launch 1, 4
//// argument floats(14)
//// argument floats(16)
__global__ void k(const float4* a, float4* o) {
  o[threadIdx.x] = a[threadIdx.x];  // ! out-of-bounds
}

//// a local array indexed past its end
//// launch 1, 32
//// argument zeros(32)
//// argument int(9)
__global__ void k(float* o, int n) {
  float v[8];
  for (int i = 0; i < n; i++)
    v[i] = i;  // ! local-index
  o[threadIdx.x] = v[n - 2];
}

//// a member array indexed before its start
//// launch 1, 1
//// argument zeros(32)
//// argument int(-1)
struct S { int a[4]; };
__global__ void k(float* o, int n) {
  S s = {{1, 2, 3, 4}};
  o[threadIdx.x] = s.a[n];  // ! local-index
}
