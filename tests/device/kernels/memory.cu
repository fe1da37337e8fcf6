//// loads and stores with cache hints
//// launch 1, 32
//// argument floats(32)
//// argument zeros(32 * 6)
//// expect 1 = np.concatenate([a[0]] * 6)
__global__ void k(const float* __restrict__ a, float* o) {
  int t = threadIdx.x;
  o[t] = __ldg(a + t); __stcs(o + 32 + t, __ldcs(a + t)); __stcg(o + 64 + t, __ldcg(&a[t])); __stwt(o + 96 + t, __ldca(a + t));
  __stwb(o + 128 + t, __ldlu(a + t)); o[t + 160] = __ldcv(a + t);
}

//// vector loads
//// launch 1, 8
//// argument floats(32)
//// argument zeros(32)
//// expect 1 = a[0] * 2
__global__ void k(const float* a, float* o) {
  int t = threadIdx.x;
  float4 v = __ldg(reinterpret_cast<const float4*>(a) + t);
  v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;
  reinterpret_cast<float4*>(o)[t] = v;
}

//// constants, module variables and tables
//// launch 2, 32
//// argument zeros(64)
//// expect 0 = np.array([[10, 20, 30, 40][i % 4] + 7 + i for i in range(64)], f32)
__constant__ float table[4] = {10, 20, 30, 40};
__device__ int offset = 7;
__device__ int counter;
struct Pair { int a, b; };
__constant__ Pair pair = {1, 2};
__global__ void k(float* o) {
  int i = blockIdx.x * 32 + threadIdx.x;
  atomicAdd(&counter, pair.a);
  o[i] = table[i % 4] + offset + i;
}

//// dynamic shared memory
//// launch 2, 64 shared=256
//// argument floats(128)
//// argument zeros(128)
//// expect 1 = a[0].reshape(2, 64)[:, ::-1].reshape(-1)
__global__ void k(const float* a, float* o) {
  extern __shared__ float s[];
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  s[t] = a[i];
  __syncthreads();
  o[i] = s[63 - t];
}

//// dynamic shared memory shared out by hand, aligned and of a template's type
//// launch 1, 32 shared=512
//// argument floats(32)
//// argument zeros(32)
//// expect 1 = a[0] + 31 - np.arange(32)
template <class T> __device__ T* part(unsigned char* p, int n) { return reinterpret_cast<T*>(p) + n; }
template <class T> __device__ void body(const T* a, T* o) {
  extern __shared__ __align__(16) unsigned char raw[];
  T* x = part<T>(raw, 0); int* y = part<int>(raw + 32 * sizeof(T), 0); int t = threadIdx.x;
  x[t] = a[t]; y[31 - t] = t;
  __syncthreads();
  o[t] = x[t] + y[t];
}
__global__ void k(const float* a, float* o) { body<float>(a, o); }

//// an extern shared array outside of the kernel
//// launch 1, 32 shared=128
//// argument zeros(32)
//// expect 0 = np.arange(32)[::-1].astype(f32)
extern __shared__ float whole[];
__device__ float get(int i) { return whole[i]; }
__global__ void k(float* o) {
  whole[threadIdx.x] = threadIdx.x;
  __syncthreads();
  o[threadIdx.x] = get(31 - threadIdx.x);
}

//// static shared arrays of templates and functions
//// launch 1, 32
//// argument zeros(64)
//// expect 0 = np.concatenate([np.arange(32)[::-1] + 1, np.arange(32)[::-1] + 2]).astype(f32)
template <int N> __device__ float turn(float v) {
  __shared__ float s[32];
  s[threadIdx.x] = v + N;
  __syncthreads();
  return s[31 - threadIdx.x];
}
__global__ void k(float* o) { int t = threadIdx.x; float a = turn<1>(t), b = turn<2>(t); o[t] = a; o[t + 32] = b; }

//// copies of bytes
//// launch 1, 1
//// argument np.arange(64).astype(u8)
//// argument zeros(64, u8)
//// argument int(33)
//// expect 1 = np.concatenate([np.arange(33), np.zeros(15), np.full(12, 9), np.arange(4)]).astype(u8)
__global__ void k(const unsigned char* a, unsigned char* o, int n) {
  memcpy(o, a, n);
  memset(o + 48, 9, n - 21);
  int v; memcpy(&v, a, 4); std::memcpy(o + 60, &v, sizeof v);
}

//// a large struct is copied and returned
//// launch 1, 4
//// argument floats(48)
//// argument zeros(48)
//// expect 1 = a[0] + 1
struct Big { float v[12]; };
__device__ Big plus(Big b) { for (int i = 0; i < 12; i++) b.v[i] += 1; return b; }
__global__ void k(const Big* a, Big* o) { Big b = a[threadIdx.x]; o[threadIdx.x] = plus(b); }

//// local arrays and recursion
//// launch 1, 32
//// argument zeros(32, i32)
//// expect 0 = np.array([sum((i + j) % 7 for j in range(16)) + [1, 1, 2, 3, 5, 8, 13, 21][i % 8] for i in range(32)])
__device__ int fibonacci(int n) { return n < 2 ? 1 : fibonacci(n - 1) + fibonacci(n - 2); }
__global__ void k(int* o) {
  int v[16], t = threadIdx.x, s = 0;
  for (int j = 0; j < 16; j++) v[j] = (t + j) % 7;
  for (int j = 0; j < 16; j++) s += v[(j * 5) % 16];
  o[t] = s + fibonacci(t % 8);
}

//// a device lambda, a functor and a function pointer
//// launch 1, 32
//// argument zeros(96)
//// expect 0 = np.concatenate([np.arange(32) * 3, np.arange(32) + 5, np.arange(32) ** 2]).astype(f32)
struct Add { float by; __device__ float operator()(float v) const { return v + by; } };
template <class F> __device__ void apply(float* o, F f) { o[threadIdx.x] = f(threadIdx.x); }
__device__ float square(float v) { return v * v; }
__global__ void k(float* o) {
  float three = 3;
  apply(o, [=] __device__(float v) { return v * three; });
  apply(o + 32, Add{5});
  float (*f)(float) = square;
  apply(o + 64, f);
}

//// printf
//// launch 1, 2
//// argument int(5)
//// output lane 0: 5 2.50 x 0x0000001f
//// output lane 1: 5 2.50 x 0x0000001f
//// output 100% done
__global__ void k(int n) {
  printf("lane %d: %i %.2f %s 0x%08x\n", threadIdx.x, n, 2.5f, "x", 31u);
  __syncthreads();
  if (threadIdx.x == 0) printf("%d%% done\n", 100);
}

//// an assertion that holds, and a clock
//// launch 1, 32
//// argument zeros(1, i32)
//// expect 0 = np.array([1])
__global__ void k(int* o) {
  assert(threadIdx.x < 32);
  long long start = clock64();
  __nanosleep(10);
  if (threadIdx.x == 0) o[0] = clock64() >= start;
}

//// three-dimensional blocks and grids
//// launch (2, 3, 2), (4, 2, 3)
//// argument zeros(288, i32)
//// expect 0 = np.arange(288)
__global__ void k(int* o) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  o[i] = i;
}

//// a generic pointer to either memory
//// launch 1, 32
//// argument floats(32)
//// expect 0 = np.where(np.arange(32) % 2 == 0, np.arange(32), np.arange(32) + 100).astype(f32)
__global__ void k(float* a) {
  __shared__ float s[32]; int t = threadIdx.x;
  s[t] = t + 100;
  __syncthreads();
  float* p = t % 2 ? s : a;
  float v = p[t];
  if (__isShared(p) && t % 2) a[t] = v;
}

//// static written before __shared__
//// launch 1, 32
//// argument zeros(32)
//// expect 0 = np.arange(32)[::-1].astype(f32) * 2
template <class T> __device__ T turn(T v) {
  static __shared__ T a[32];
  __shared__ static T b[32];
  a[threadIdx.x] = v; b[threadIdx.x] = v;
  __syncthreads();
  return a[31 - threadIdx.x] + b[31 - threadIdx.x];
}
__global__ void k(float* o) { o[threadIdx.x] = turn<float>(threadIdx.x); }
