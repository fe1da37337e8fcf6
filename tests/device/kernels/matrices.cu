//// wmma with halves and a float accumulator
//// launch 1, 32
//// argument normal(256, dtype=f16)
//// argument normal(256, seed=1, dtype=f16)
//// argument normal(256, seed=2)
//// close 2 = (a[0].reshape(16, 16).astype(f64) @ a[1].reshape(16, 16).astype(f64) + a[2].reshape(16, 16)).astype(f32).reshape(-1) within 1e-6
#include <mma.h>
using namespace nvcuda;
__global__ void k(const half* a, const half* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}

//// wmma by columns, elements of a fragment changed one by one
//// launch 1, 32
//// argument normal(256, dtype=f16)
//// argument normal(256, seed=1, dtype=f16)
//// argument zeros(256)
//// close 2 = (2 * (a[0].reshape(16, 16).T.astype(f64) @ a[1].reshape(16, 16).T.astype(f64)) + 1).astype(f32).T.reshape(-1) within 2e-6
using namespace nvcuda;
__global__ void k(const half* a, const half* b, float* c) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  wmma::load_matrix_sync(fa, a, 16);
  wmma::load_matrix_sync(fb, b, 16);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] = 2 * fc.x[i] + 1;
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_col_major);
}

//// wmma of other shapes and types
//// launch 1, 32
//// argument normal(512, dtype=bf16)
//// argument normal(128, seed=1, dtype=bf16)
//// argument zeros(256)
//// argument integers(-128, 127, 256, i8)
//// argument integers(-128, 127, 256, i8, seed=3)
//// argument zeros(256, i32)
//// close 2 = (a[0].reshape(32, 16).astype(f64) @ a[1].reshape(16, 8).astype(f64)).astype(f32).reshape(-1) within 1e-6
//// expect 5 = (a[3].reshape(16, 16).astype(i32) @ a[4].reshape(16, 16).astype(i32)).reshape(-1)
using namespace nvcuda::wmma;
__global__ void k(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, const signed char* d, const signed char* e, int* f) {
  fragment<matrix_a, 32, 8, 16, __nv_bfloat16, row_major> fa;
  fragment<matrix_b, 32, 8, 16, __nv_bfloat16, row_major> fb;
  fragment<accumulator, 32, 8, 16, float> fc;
  fill_fragment(fc, 0.0f);
  load_matrix_sync(fa, a, 16); load_matrix_sync(fb, b, 8);
  mma_sync(fc, fa, fb, fc);
  store_matrix_sync(c, fc, 8, mem_row_major);
  fragment<matrix_a, 16, 16, 16, signed char, row_major> fd;
  fragment<matrix_b, 16, 16, 16, signed char, row_major> fe;
  fragment<accumulator, 16, 16, 16, int> ff;
  fill_fragment(ff, 0);
  load_matrix_sync(fd, d, 16); load_matrix_sync(fe, e, 16);
  mma_sync(ff, fd, fe, ff);
  store_matrix_sync(f, ff, 16, mem_row_major);
}

//// wmma with tf32 and with double
//// launch 1, 32
//// argument integers(-8, 8, 128).astype(f32)
//// argument integers(-8, 8, 128, seed=1).astype(f32)
//// argument zeros(256)
//// argument normal(32, dtype=f64)
//// argument normal(32, seed=1, dtype=f64)
//// argument zeros(64, f64)
//// expect 2 = (a[0].reshape(16, 8) @ a[1].reshape(8, 16)).reshape(-1)
//// close 5 = (a[3].reshape(8, 4) @ a[4].reshape(4, 8)).reshape(-1) within 1e-14
using namespace nvcuda::wmma;
__global__ void k(const float* a, const float* b, float* c, const double* d, const double* e, double* f) {
  fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> fa;
  fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> fb;
  fragment<accumulator, 16, 16, 8, float> fc;
  fill_fragment(fc, 0.0f);
  load_matrix_sync(fa, a, 8); load_matrix_sync(fb, b, 16);
  for (int i = 0; i < fa.num_elements; i++) fa.x[i] = __float_to_tf32(fa.x[i]);
  mma_sync(fc, fa, fb, fc);
  store_matrix_sync(c, fc, 16, mem_row_major);
  fragment<matrix_a, 8, 8, 4, double, row_major> fd;
  fragment<matrix_b, 8, 8, 4, double, row_major> fe;
  fragment<accumulator, 8, 8, 4, double> ff;
  fill_fragment(ff, 0.0);
  load_matrix_sync(fd, d, 4); load_matrix_sync(fe, e, 8);
  mma_sync(ff, fd, fe, ff);
  store_matrix_sync(f, ff, 8, mem_row_major);
}
