//// shuffles with every width
//// launch 1, 32
//// argument zeros(32 * 8, i32)
//// expect 0 = np.concatenate([np.full(32, 7), np.maximum(np.arange(32) - 3, np.arange(32) * (np.arange(32) < 3)), np.where(np.arange(32) + 5 < 32, np.arange(32) + 5, np.arange(32)), np.arange(32) ^ 9, np.arange(32) // 8 * 8 + 2, np.where(np.arange(32) % 16 >= 4, np.arange(32) - 4, np.arange(32)), np.where(np.arange(32) % 4 + 1 < 4, np.arange(32) + 1, np.arange(32)), np.arange(32) ^ 1])
__global__ void k(int* o) {
  int t = threadIdx.x;
  o[t] = __shfl_sync(0xffffffff, t, 7);
  o[t + 32] = __shfl_up_sync(0xffffffff, t, 3);
  o[t + 64] = __shfl_down_sync(0xffffffff, t, 5);
  o[t + 96] = __shfl_xor_sync(0xffffffff, t, 9);
  o[t + 128] = __shfl_sync(0xffffffff, t, 2, 8);
  o[t + 160] = __shfl_up_sync(0xffffffff, t, 4, 16);
  o[t + 192] = __shfl_down_sync(0xffffffff, t, 1, 4);
  o[t + 224] = __shfl_xor_sync(0xffffffff, t, 1, 2);
}

//// shuffles of other types
//// launch 1, 32
//// argument zeros(32, f64)
//// argument zeros(32, i64)
//// argument zeros(32, f16)
//// expect 0 = (np.arange(32) ^ 1) * 0.5
//// expect 1 = (np.arange(32) ^ 2) << 40
//// expect 2 = (np.arange(32) ^ 4).astype(f16)
__global__ void k(double* d, long long* l, half* h) {
  int t = threadIdx.x;
  d[t] = __shfl_xor_sync(0xffffffff, t * 0.5, 1);
  l[t] = __shfl_xor_sync(0xffffffff, (long long)t << 40, 2);
  h[t] = __shfl_xor_sync(0xffffffff, __int2half_rn(t), 4);
}

//// votes and matches
//// launch 1, 32
//// argument zeros(32 * 6, u32)
//// expect 0 = np.concatenate([np.full(32, 1), np.full(32, 0), np.full(32, 0x55555555), np.array([sum(1 << j for j in range(32) if j % 5 == i % 5) for i in range(32)]), np.full(32, 0xffffffff), np.full(32, 0)]).astype(u32)
__global__ void k(unsigned* o) {
  int t = threadIdx.x, p;
  o[t] = __any_sync(0xffffffff, t == 3);
  o[t + 32] = __all_sync(0xffffffff, t < 31);
  o[t + 64] = __ballot_sync(0xffffffff, t % 2 == 0);
  o[t + 96] = __match_any_sync(0xffffffff, t % 5);
  o[t + 128] = __match_all_sync(0xffffffff, 4.0f, &p);
  o[t + 160] = __match_all_sync(0xffffffff, t / 31, &p) + p;
}

//// reductions of a warp
//// launch 1, 32
//// argument zeros(10, i32)
//// expect 0 = np.array([-496 + 32, -30, 1, 496, 31, 0, 0, 31, 0, -464])
__global__ void k(int* o) {
  int t = threadIdx.x;
  int a = __reduce_add_sync(0xffffffff, 1 - t), b = __reduce_min_sync(0xffffffff, 1 - t), c = __reduce_max_sync(0xffffffff, 1 - t);
  unsigned d = __reduce_add_sync(0xffffffff, (unsigned)t), e = __reduce_max_sync(0xffffffff, (unsigned)t), f = __reduce_min_sync(0xffffffff, (unsigned)t);
  unsigned g = __reduce_and_sync(0xffffffff, (unsigned)t), h = __reduce_or_sync(0xffffffff, (unsigned)t), i = __reduce_xor_sync(0xffffffff, (unsigned)t);
  if (t == 0) { o[0] = a; o[1] = b; o[2] = c; o[3] = d; o[4] = e; o[5] = f; o[6] = g; o[7] = h; o[8] = i; o[9] = a; }
}

//// half of a warp with its own mask
//// launch 1, 64
//// argument zeros(64, i32)
//// expect 0 = np.where(np.arange(64) % 32 < 16, 0x0000ffff & 0xffff, 2).astype(i32)
__global__ void k(int* o) {
  int t = threadIdx.x;
  if (t % 32 < 16) o[t] = __ballot_sync(0x0000ffff, 1);
  else o[t] = __popc(__ballot_sync(0xffff0000, t % 8 == 5));
}

//// active mask in a branch
//// launch 1, 32
//// argument zeros(32, u32)
//// expect 0 = np.where(np.arange(32) % 3 == 0, sum(1 << i for i in range(0, 32, 3)), 0).astype(u32)
__global__ void k(unsigned* o) {
  int t = threadIdx.x;
  if (t % 3 == 0) o[t] = __activemask();
}

//// block barriers that count
//// launch 1, 96
//// argument zeros(3, i32)
//// expect 0 = np.array([33, 0, 1])
__global__ void k(int* o) {
  int t = threadIdx.x;
  int c = __syncthreads_count(t < 33), a = __syncthreads_and(t < 95), r = __syncthreads_or(t == 95);
  if (t == 0) { o[0] = c; o[1] = a; o[2] = r; }
}

//// a warp-wide prefix sum
//// launch 2, 64
//// argument ints(128, 1, 3)
//// expect 0 = (1 + 3 * np.arange(128)).reshape(4, 32).cumsum(1).reshape(-1)
__global__ void k(int* a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, v = a[i];
  for (int d = 1; d < 32; d *= 2) { int u = __shfl_up_sync(0xffffffff, v, d); if (lane >= d) v += u; }
  a[i] = v;
}
