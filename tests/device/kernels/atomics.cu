//// integer atomics
//// launch 2, 64
//// argument np.array([0, 0, 1000, -1000, -1, 0, 0, 0, 5, 0], i32)
//// expect 0 = np.array([128, -128, -63, 63, -64, 63, 0, 1, 0, 0])
__global__ void k(int* o) {
  int t = threadIdx.x;
  atomicAdd(&o[0], 1); atomicSub(&o[1], 1); atomicMin(&o[2], -t); atomicMax(&o[3], t); atomicAnd(&o[4], ~t); atomicOr(&o[5], t);
  atomicXor(&o[6], t);
  if (t == 63) atomicExch(&o[7], 1);
  if (t == 0) atomicExch(&o[8], 0);
}

//// atomics that return, wrap and compare
//// launch 1, 64
//// argument zeros(4, u32)
//// argument zeros(64, u32)
//// expect 0 = np.array([64 % 6, 5, 64, 64], u32)
__global__ void k(unsigned* o, unsigned* seen) {
  atomicInc(&o[0], 5);
  if (threadIdx.x < 2) atomicDec(&o[1], 6);
  unsigned old = o[2] * 0, assumed;
  do { assumed = old; old = atomicCAS(&o[2], assumed, assumed + 1); } while (old != assumed);
  seen[atomicAdd_block(&o[3], 1u)] = 1;
}

//// floating-point and 64-bit atomics
//// launch 1, 64
//// argument zeros(1)
//// argument zeros(1, f64)
//// argument np.array([0, 0, 2 ** 63], np.uint64)
//// expect 0 = np.array([32], f32)
//// expect 1 = np.array([16.0])
//// expect 2 = np.array([64 << 33, 63, 0], np.uint64)
__global__ void k(float* f, double* d, unsigned long long* u) {
  atomicAdd(f, 0.5f); atomicAdd_system(d, 0.25); atomicAdd(&u[0], 1ull << 33); atomicMax(&u[1], (unsigned long long)threadIdx.x);
  atomicMin(&u[2], (unsigned long long)threadIdx.x);
}

//// atomics on halves and pairs
//// launch 1, 64
//// argument zeros(4, f16)
//// argument zeros(2, bf16)
//// argument zeros(2, np.uint16)
//// expect 0 = np.array([64, 0, 64, 128], f16)
//// expect 1 = np.array([64, 32], bf16)
//// expect 2 = np.array([64, 0], np.uint16)
__global__ void k(half* h, __nv_bfloat162* b, unsigned short* u) {
  atomicAdd(h, __float2half(1.0f));
  atomicAdd((half2*)(h + 2), __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(b, __floats2bfloat162_rn(1.0f, 0.5f));
  unsigned short old = 0, assumed;
  do { assumed = old; old = atomicCAS(u, assumed, (unsigned short)(assumed + 1)); } while (old != assumed);
}

//// atomics on shared memory
//// launch 4, 128
//// argument integers(0, 16, 512, u32)
//// argument zeros(16, u32)
//// expect 1 = np.bincount(a[0], minlength=16)
__global__ void k(const unsigned* a, unsigned* h) {
  __shared__ unsigned s[16];
  if (threadIdx.x < 16) s[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&s[a[blockIdx.x * 128 + threadIdx.x]], 1u);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&h[threadIdx.x], s[threadIdx.x]);
}

//// cuda::atomic_ref and cuda::atomic
//// launch 2, 32
//// argument zeros(3, i32)
//// argument zeros(1)
//// expect 0 = np.array([64, 31, 64])
//// expect 1 = np.array([32], f32)
__device__ cuda::atomic<int, cuda::thread_scope_device> arrived;
__global__ void k(int* o, float* f) {
  cuda::atomic_ref<int, cuda::thread_scope_device> r(o[0]), m(o[1]);
  r.fetch_add(1, cuda::memory_order_relaxed);
  m.fetch_max(threadIdx.x);
  cuda::atomic_ref<float> g(*f);
  g.fetch_add(0.5f, cuda::std::memory_order_relaxed);
  if (arrived.fetch_add(1) == 63) o[2] = arrived.load();
}

//// one block publishes with a release, another acquires
//// launch 2, 32
//// argument zeros(1, i32)
//// argument zeros(1, i32)
//// argument zeros(1, i32)
//// expect 2 = np.array([42])
__global__ void k(int* flag, int* data, int* o) {
  if (threadIdx.x) return;
  cuda::atomic_ref<int, cuda::thread_scope_device> f(*flag);
  if (blockIdx.x == 0) { while (f.load(cuda::memory_order_acquire) == 0); *o = *data; }
  else { *data = 42; f.store(1, cuda::memory_order_release); }
}
