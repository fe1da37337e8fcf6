//// with __syncwarp
//// launch 1, 32
//// argument floats(32)
//// expect 0 = np.arange(32, dtype=np.float32)[::-1]
__global__ void k(float* o) { __shared__ float s[32];
  int t = threadIdx.x;
  s[t] = t;
  __syncwarp();
  o[t] = s[31 - t];
  }

//// double buffer with one barrier a step
//// launch 1, 64
//// argument floats(640)
//// argument floats(64)
//// argument int(10)
//// expect 1 = np.arange(576, dtype=np.float32).reshape(9, 64).sum(0)[::-1]
__global__ void k(const float* a, float* o, int n) {
  __shared__ float s[2][64]; int t = threadIdx.x, c = 0;
  s[0][t] = a[t]; __syncthreads(); float v = 0;
  for (int k = 1; k < n; k++) {
    s[c ^ 1][t] = a[k * 64 + t]; v += s[c][63 - t]; __syncthreads(); c ^= 1;
  }
  o[t] = v;
}

//// lanes with different trip counts
//// launch 1, 32
//// argument (np.arange(32) % 8).astype(np.int32)
//// argument ints(32)
//// expect 1 = np.array([sum(range(n)) for n in np.arange(32) % 8], np.int32)
__global__ void k(const int* a, int* o) { int t = threadIdx.x, n = a[t], s = 0;
  for (int j = 0; j < n; j++) s += a[j]; o[t] = s; }

//// the last block sums up
//// launch 8, 32
//// argument floats(8)
//// argument floats(8)
//// argument floats(1)
//// expect 2 = np.array([28], np.float32)
__device__ unsigned count;
__global__ void k(const float* a, float* part, float* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = a[blockIdx.x];
    __threadfence();
    last = atomicAdd(&count, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float s = 0;
    for (int j = 0; j < gridDim.x; j++) s += part[j];
    *out = s; count = 0;
  }
}

//// the last block, every thread fences, all threads of it sum up
//// launch 4, 64
//// argument floats(256)
//// argument floats(256)
//// argument floats(64)
//// expect 2 = np.arange(256, dtype=np.float32).reshape(4, 64).sum(0)
__device__ unsigned count;
__global__ void k(const float* a, float* part, float* out) {
  __shared__ bool last;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[i] = a[i];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(&count, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    float s = 0;
    for (int j = threadIdx.x; j < gridDim.x * blockDim.x; j += blockDim.x) s += part[j];
    out[threadIdx.x] = s;
  }
}

//// halves of one word by two threads
//// launch 1, 64
//// argument np.zeros(64, np.int16)
//// expect 0 = np.arange(64, dtype=np.int16)[::-1]
__global__ void k(short* o) { __shared__ short s[64];
  int t = threadIdx.x;
  s[t] = t;
  __syncthreads();
  o[t] = s[63 - t];
  }

//// three bytes copied as a struct
//// launch 1, 32
//// argument np.arange(96, dtype=np.uint8)
//// argument np.zeros(96, np.uint8)
//// expect 1 = np.arange(96, dtype=np.uint8)
__global__ void k(const uchar3* a, uchar3* o) { int t = threadIdx.x; o[t] = a[t]; }

//// a full mask after some lanes have exited
//// launch 1, 32
//// argument ints(32)
//// expect 0 = np.array([1] * 20 + [0] * 12, np.int32)
__global__ void k(int* o) { int t = threadIdx.x;
  if (t >= 20) return;
  o[t] = __any_sync(0xffffffff, t == 19);
  }

//// a barrier that the compiler may duplicate
//// launch 1, 64
//// argument floats(64)
//// argument floats(64)
//// argument int(7)
//// expect 1 = np.arange(64, dtype=np.float32)[::-1]
__global__ void k(const float* a, float* o, int n) {
  __shared__ float s[64]; int t = threadIdx.x; float v = 0;
  if (n > 5) v = a[t]; else v = 2 * a[t];
  s[t] = v; __syncthreads();
  if (n > 5) o[t] = s[63 - t]; else o[t] = s[t];
}

//// early exit before a barrier
//// launch 1, 64
//// argument floats(64)
//// argument int(40)
//// expect 0 = np.array([i + 1 if i < 40 else i for i in range(64)], np.float32)
__global__ void k(float* o, int n) { int t = threadIdx.x;
  if (t >= n) return;
  o[t] = t;
  __syncthreads();
  o[t] += 1;
  }

//// a lock inside one warp
//// launch 2, 32
//// argument ints(1)
//// expect 0 = np.array([64], np.int32)
__device__ int lock;
__global__ void k(int* o) {
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock, 0, 1) == 0) {
      *(volatile int*)o = *(volatile int*)o + 1;
      __threadfence();
      atomicExch(&lock, 0);
      done = true;
    }
  }
}

//// a block waits for a later one
//// launch 2, 32
//// argument ints(1)
//// argument ints(1)
//// argument ints(1)
//// expect 2 = np.array([7], np.int32)
__global__ void k(volatile int* flag, int* data, int* o) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) { while (flag[0] == 0); __threadfence(); o[0] = data[0]; }
  else { data[0] = 7; __threadfence(); flag[0] = 1; }
}

//// a shared array indexed past a row's end but inside the array
//// launch 1, 32
//// argument floats(32)
//// expect 0 = np.arange(32, dtype=np.float32)[::-1]
__global__ void k(float* o) {
  __shared__ float s[4][8];
  int t = threadIdx.x;
  s[t / 8][t % 8] = t;
  __syncthreads();
  o[t] = s[0][31 - t];
}
