//// bits and integers
//// launch 1, 1
//// argument zeros(20, u32)
//// expect 0 = np.array([13, 5, 32, 3, 0, 0x1E6A2C48, 0x22114433, 0x0F, 0xFFFFFFFF, 12, 6, 0x34567812, 0x56781234, 39, 3, 0x7FFFFFFF, 2, 5, 0xFFFFFFFE, 9], u32)
__global__ void k(unsigned* o) {
  o[0] = __popc(0x1fff); o[1] = __clz(0x07000000); o[2] = __clz(0); o[3] = __ffs(4); o[4] = __ffs(0);
  o[5] = __brev(0x12345678); o[6] = __byte_perm(0x11223344, 0x55667788, 0x2301);
  o[7] = (unsigned)(__umulhi(0xffffffffu, 16u)); o[8] = (unsigned)__mulhi(-1, 16);
  o[9] = __mul24(3, 4); o[10] = __sad(3, 7, 2); o[11] = __funnelshift_l(0x12345678, 0x12345678, 8); o[12] = __funnelshift_r(0x12345678, 0x12345678, 16);
  o[13] = __popcll(0xfffffffff0000007ull) - 0 + (__popcll(7) - 3) ; o[14] = __ffsll(4ll);
  o[15] = __float2int_rn(3e9f); o[16] = __float2int_rn(2.5f); o[17] = __float2uint_ru(4.1f); o[18] = (unsigned)__float2int_rz(-2.9f); o[19] = __uhadd(8, 11);
}

//// dot products of bytes
//// launch 1, 1
//// argument zeros(6, i32)
//// expect 0 = np.array([10 + (-1 * 2 + 2 * 3 + 3 * -4 + 4 * 5), 10 + 255 * 2 + 2 * 3 + 3 * 252 + 4 * 5, 1 * 10 + 2 * 20 + 3 * 30 + 4 * 40, 5 + 300 * 2 + -7 * 3, 5 + 300 * -4 + -7 * 5, 30], i32)
__global__ void k(int* o) {
  int a = (int)0x040302ff, b = 0x05fc0302;
  o[0] = __dp4a(a, b, 10);
  o[1] = (int)__dp4a((unsigned)a, (unsigned)b, 10u);
  o[2] = __dp4a(make_char4(1, 2, 3, 4), make_char4(10, 20, 30, 40), 0);
  int w = (int)((unsigned)(-7 & 0xffff) << 16 | 300);
  o[3] = __dp2a_lo(w, b, 5);
  o[4] = __dp2a_hi(w, b, 5);
  o[5] = (int)__vsadu4(0x0a141e28, 0x0a0a1428);
  o[5] += 10;
}

//// packed bytes
//// launch 1, 1
//// argument zeros(6, u32)
//// expect 0 = np.array([0x00010305, 0x7F80FF01, 0xFF7F0504, 0xFF00FF00, 0x00FFFFFF, 0x00020002], u32)
__global__ void k(unsigned* o) {
  o[0] = __vadd4(0xff000102, 0x01010203); o[1] = __vaddss4(0x7f80ff00, 0x01ff0001); o[2] = __vmaxu4(0xff010504, 0x017f0403);
  o[3] = __vcmpeq4(0x11223344, 0x11003300); o[4] = __vaddus4(0x00ff80ff, 0x0001ff01); o[5] = __vsub2(0x00030003, 0x00010001);
}

//// bit casts
//// launch 1, 1
//// argument zeros(4, u32)
//// argument zeros(2, f64)
//// expect 0 = np.array([0x3f800000, 0x40490fdb, 0x3ff00000, 0], u32)
//// expect 1 = np.array([1.5, -2.0])
__global__ void k(unsigned* o, double* d) {
  o[0] = __float_as_int(1.0f); o[1] = __float_as_uint(3.14159274f); o[2] = __double2hiint(1.0); o[3] = __double2loint(1.0);
  d[0] = __longlong_as_double(0x3ff8000000000000ll); d[1] = __hiloint2double(0xc0000000, 0);
}

//// mathematical functions in single precision
//// launch 1, 64
//// argument np.linspace(0.05, 3, 64).astype(f32)
//// argument zeros(64 * 12)
//// close 1 = np.concatenate([np.sin(a[0]), np.exp(a[0]), np.log(a[0]), 1 / np.sqrt(a[0]), np.power(a[0], 1.7), np.vectorize(__import__("math").erf)(a[0]), np.hypot(a[0], 2), np.cbrt(a[0]), np.tanh(a[0]), np.log1p(a[0]), np.exp2(a[0]), np.arctan2(a[0], 0.5)]) within 4e-7
__global__ void k(const float* a, float* o) {
  int t = threadIdx.x; float x = a[t];
  o[t] = sinf(x); o[t + 64] = expf(x); o[t + 128] = logf(x); o[t + 192] = rsqrtf(x); o[t + 256] = powf(x, 1.7f); o[t + 320] = erff(x);
  o[t + 384] = hypotf(x, 2); o[t + 448] = cbrtf(x); o[t + 512] = tanhf(x); o[t + 576] = log1pf(x); o[t + 640] = exp2f(x); o[t + 704] = atan2f(x, 0.5f);
}

//// overloads keep float
//// launch 1, 1
//// argument zeros(4, i32)
//// expect 0 = np.array([4, 4, 8, 4], i32)
__global__ void k(int* o) {
  float x = 2;
  o[0] = sizeof(sin(x)); o[1] = sizeof(max(x, 1.0f)); o[2] = sizeof(max(x, 1.0)); o[3] = sizeof(rsqrt(x));
}

//// functions that no C library has
//// launch 1, 1
//// argument zeros(10, f64)
//// close 0 = np.array([0.4769362762044699, 1.6448536269514722, 0.9750021048517795, 1.0, -1.0, 0.6156903441929258, 1.2660658777520084, 13.0, 1 / 13.0, 0.4769362762044699]) within 1e-12
__global__ void k(double* o) {
  o[0] = erfinv(0.5); o[1] = normcdfinv(0.95); o[2] = normcdf(1.96); o[3] = sinpi(0.5); o[4] = cospi(1.0); o[5] = erfcx(0.5);
  o[6] = cyl_bessel_i0(1.0); o[7] = norm3d(3.0, 4.0, 12.0); o[8] = rnorm3d(3.0, 4.0, 12.0); o[9] = erfcinv(0.5);
}

//// stated rounding
//// launch 1, 1
//// argument zeros(6)
//// expect 0 = np.array([1, np.nextafter(f32(1), f32(2)), 1, np.nextafter(f32(1), f32(0)), np.nextafter(f32(0.1), f32(0)), f32(1) / f32(3)], f32)
__global__ void k(float* o) {
  o[0] = __fadd_rn(1.0f, 1e-9f); o[1] = __fadd_ru(1.0f, 1e-9f); o[2] = __fadd_rd(1.0f, 1e-9f); o[3] = __fsub_rz(1.0f, 1e-9f);
  o[4] = __double2float_rd(0.1); o[5] = __frcp_rn(3.0f);
}

//// a multiply-add is fused where the source says so, and only there
//// launch 1, 1
//// argument np.array([1 + 2.0 ** -12, 1 + 2.0 ** -12, -1], f32)
//// argument zeros(2)
//// expect 1 = np.array([2.0 ** -11 + 2.0 ** -24, 2.0 ** -11], f32)
__global__ void k(const float* a, float* o) {
  float x = a[0], y = a[1], z = a[2];
  o[0] = fmaf(x, y, z);
  o[1] = x * y + z;
}

//// minimum and maximum give way from NaN
//// launch 1, 1
//// argument zeros(4)
//// expect 0 = np.array([1, 2, 0, 1], f32)
__global__ void k(float* o) {
  float n = CUDART_NAN_F;
  o[0] = max(n, 1.0f); o[1] = fminf(2.0f, n); o[2] = __saturatef(n); o[3] = __saturatef(7.0f);
}

//// denormals stay
//// launch 1, 1
//// argument np.array([1e-40], f32)
//// expect 0 = np.array([1e-40], f32) * f32(0.5)
__global__ void k(float* a) { a[0] = a[0] * 0.5f; }

//// long integers round as told
//// launch 1, 1
//// argument zeros(4)
//// argument zeros(2, f64)
//// expect 0 = np.array([16777216, 16777218, 16777216, 16777218], f32)
//// expect 1 = np.array([2.0 ** 53, 2.0 ** 53 + 2])
__global__ void k(float* o, double* d) {
  o[0] = __ll2float_rd(16777217); o[1] = __ll2float_ru(16777217); o[2] = __ull2float_rz(16777217); o[3] = __uint2float_ru(16777217);
  d[0] = __ll2double_rd((1ll << 53) + 1); d[1] = __ull2double_ru((1ull << 53) + 1);
}
