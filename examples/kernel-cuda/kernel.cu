// A matrix product in fp32 for NVIDIA GPUs, brought to gemmaudit as a shared library.
//
// A block of TILE×TILE threads computes a TILE×TILE part of C, one element a thread. It walks
// over K in steps of TILE: each thread loads one element of A and one of B into shared memory,
// 2·TILE²·4 bytes of it, from which TILE multiplications are fed for every element loaded.
#include <cuda_runtime.h>

#include <cstdio>

#include "gemmaudit_kernel.h"

namespace {

constexpr int TILE = 32;

__global__ void __launch_bounds__(TILE *TILE) product(gemmaudit_problem p, const float *a, const float *b, float *c) {
  __shared__ float as[TILE][TILE];
  __shared__ float bs[TILE][TILE + 1]; // the column keeps reads of a transposed B from one bank
  // Blocks are listed along x, where the grid has no limit that a product reaches.
  const int64_t across = (p.n + TILE - 1) / TILE;
  const int64_t row = blockIdx.x / across * TILE + threadIdx.y;
  const int64_t column = blockIdx.x % across * TILE + threadIdx.x;
  float sum = 0;
  for (int64_t k0 = 0; k0 < p.k; k0 += TILE) {
    const int64_t ka = k0 + threadIdx.x;
    as[threadIdx.y][threadIdx.x] = row < p.m && ka < p.k ? a[row * p.lda + ka] : 0;
    if (p.b_transposed) { // neighbouring threads read along K, as B lies there
      const int64_t j = column - threadIdx.x + threadIdx.y, kb = k0 + threadIdx.x;
      bs[threadIdx.x][threadIdx.y] = j < p.n && kb < p.k ? b[j * p.ldb + kb] : 0;
    } else {
      const int64_t kb = k0 + threadIdx.y;
      bs[threadIdx.y][threadIdx.x] = column < p.n && kb < p.k ? b[kb * p.ldb + column] : 0;
    }
    __syncthreads();
    for (int k = 0; k < TILE; k++) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  if (row < p.m && column < p.n) c[row * p.ldc + column] = sum;
}

int64_t blocks(const gemmaudit_problem *p) { return ((p->m + TILE - 1) / TILE) * ((p->n + TILE - 1) / TILE); }

int supports(const gemmaudit_problem *p, char *error) {
  if (p->dtype != GEMMAUDIT_FP32) {
    snprintf(error, GEMMAUDIT_ERROR_BYTES, "it computes fp32 only");
    return 1;
  }
  if (blocks(p) > INT32_MAX) {
    snprintf(error, GEMMAUDIT_ERROR_BYTES, "C has more tiles than a grid has blocks");
    return 1;
  }
  return 0;
}

int enqueue(const gemmaudit_launch *l, void *stream, char *error) {
  const gemmaudit_problem *p = &l->problem;
  product<<<dim3(static_cast<unsigned>(blocks(p))), dim3(TILE, TILE), 0, static_cast<cudaStream_t>(stream)>>>(
      *p, static_cast<const float *>(l->a), static_cast<const float *>(l->b), static_cast<float *>(l->c));
  const cudaError_t failed = cudaGetLastError();
  if (failed == cudaSuccess) return 0;
  snprintf(error, GEMMAUDIT_ERROR_BYTES, "%s", cudaGetErrorString(failed));
  return static_cast<int>(failed);
}

} // namespace

extern "C" const gemmaudit_kernel *gemmaudit_kernel_get(void) {
  static gemmaudit_kernel kernel = {};
  kernel.abi = GEMMAUDIT_KERNEL_ABI;
  kernel.device = GEMMAUDIT_CUDA;
  kernel.name = "example-cuda";
  kernel.description = "example of a brought kernel: fp32, tiles of 32x32 through shared memory";
  kernel.supports = supports;
  kernel.enqueue = enqueue;
  return &kernel;
}
