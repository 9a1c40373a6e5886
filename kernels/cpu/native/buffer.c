#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "buffer.h"

#include <string.h>
#include <sys/mman.h>

#include "convert.h"

// FMA would change bits between machines. GCC does not contract with -std=c11; other compilers need the
// pragma.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define HUGE_PAGE ((size_t)2 << 20)

static size_t rounded(size_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

void *ga_map(size_t bytes) {
  size_t size = rounded(bytes);
  if (size < bytes || size + HUGE_PAGE < size) return NULL;
  char *p = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  size_t skip = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
  if (skip > 0) munmap(p, skip);
  munmap(p + skip + size, HUGE_PAGE - skip);
#if defined(MADV_HUGEPAGE)
  madvise(p + skip, size, MADV_HUGEPAGE);
#endif
  return p + skip;
}

void ga_unmap(void *p, size_t bytes) { munmap(p, rounded(bytes)); }

// The generator. Element i has three 32-bit words, each a hash of the counter and a key derived from the
// seed. Normal values are the sum of the six 16-bit halves (Irwin–Hall), scaled to mean 0 and variance 1,
// within ±4.2 sigma. Integer operations and one rounding make the bits the same on all devices.
static inline __attribute__((always_inline)) uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

static uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Mean and 1/sigma of the sum of six uniform 16-bit numbers.
#define HALVES_MEAN (3 * 65535)
#define HALVES_SCALE 2.1579186e-5f // 1/sqrt(6·(2^32-1)/12)

static inline __attribute__((always_inline)) uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}

static inline __attribute__((always_inline)) float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}

// Branch-free rounding to nearest even, for finite values in fp16's range.
static inline __attribute__((always_inline)) uint16_t to_fp16(float f) {
  uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 aligns the last bit with fp16's smallest denormal.
  uint32_t denormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  // A mask, because compilers may not execute floating-point additions speculatively.
  uint32_t small = 0u - (uint32_t)(magnitude < (113u << 23));
  return (uint16_t)(sign | (denormal & small) | (normal & ~small));
}

static inline __attribute__((always_inline)) uint16_t to_bf16(float f) {
  uint32_t u = bits_of(f);
  return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

typedef struct {
  uint32_t k0, k1, k2;
} keys;

static inline __attribute__((always_inline)) int32_t centred(uint32_t i, keys k) {
  uint32_t a = mix(i ^ k.k0), b = mix(a + k.k1), c = mix(b + k.k2);
  return (int32_t)((a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16) + (c & 0xffff) + (c >> 16)) - HALVES_MEAN;
}

static inline __attribute__((always_inline)) float value(uint32_t i, keys k, ga_distribution dist) {
  if (dist == GA_INTEGERS) return (float)(int32_t)(((mix(i ^ k.k0) >> 16) * 9u) >> 16) - 4.0f;
  return (float)centred(i, k) * HALVES_SCALE;
}

static inline __attribute__((always_inline)) int8_t value_int8(uint32_t i, keys k, ga_distribution dist) {
  if (dist == GA_INTEGERS) return (int8_t)((int32_t)(((mix(i ^ k.k0) >> 16) * 9u) >> 16) - 4);
  // Ties can't occur at this scale, so half away from zero equals half to even.
  float f = (float)centred(i, k) * (HALVES_SCALE * 32.0f);
  int32_t r = (int32_t)(f + (f < 0 ? -0.5f : 0.5f));
  return (int8_t)(r > 127 ? 127 : r < -127 ? -127 : r);
}

#define FILL_LOOP(type, expression)                                \
  do {                                                             \
    type *p = (type *)dst;                                         \
    for (uint32_t i = 0; i < count; i++) p[i] = (expression);      \
  } while (0)

static inline __attribute__((always_inline)) void fill_range(void *dst, ga_dtype dtype, ga_distribution dist,
                                                             uint32_t first, uint32_t count, keys k) {
  if (dist == GA_INTEGERS) {
    switch (dtype) {
      case GA_FP32: FILL_LOOP(float, value(first + i, k, GA_INTEGERS)); break;
      case GA_FP16: FILL_LOOP(uint16_t, to_fp16(value(first + i, k, GA_INTEGERS))); break;
      case GA_BF16: FILL_LOOP(uint16_t, to_bf16(value(first + i, k, GA_INTEGERS))); break;
      case GA_INT8: FILL_LOOP(int8_t, value_int8(first + i, k, GA_INTEGERS)); break;
      case GA_FP8: FILL_LOOP(uint8_t, ga_float_to_fp8(value(first + i, k, GA_INTEGERS))); break;
    }
    return;
  }
  switch (dtype) {
    case GA_FP32: FILL_LOOP(float, value(first + i, k, GA_NORMAL)); break;
    case GA_FP16: FILL_LOOP(uint16_t, to_fp16(value(first + i, k, GA_NORMAL))); break;
    case GA_BF16: FILL_LOOP(uint16_t, to_bf16(value(first + i, k, GA_NORMAL))); break;
    case GA_INT8: FILL_LOOP(int8_t, value_int8(first + i, k, GA_NORMAL)); break;
    case GA_FP8: FILL_LOOP(uint8_t, ga_float_to_fp8(value(first + i, k, GA_NORMAL))); break;
  }
}

typedef void (*filler)(void *, ga_dtype, ga_distribution, uint32_t, uint32_t, keys);

static void fill_portable(void *dst, ga_dtype t, ga_distribution d, uint32_t first, uint32_t count, keys k) {
  fill_range(dst, t, d, first, count, k);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void fill_avx2(void *dst, ga_dtype t, ga_distribution d, uint32_t first,
                                                      uint32_t count, keys k) {
  fill_range(dst, t, d, first, count, k);
}
#endif

static filler best_filler(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return fill_avx2;
#endif
  return fill_portable;
}

typedef struct {
  char *dst;
  ga_distribution dist;
  ga_dtype dtype;
  int64_t n;
  uint64_t seed;
} fill_job;

// Elements with the same upper half of the counter: small enough to share any buffer among threads, large
// enough to amortize the keys.
enum { FILL_CHUNK = 1 << 16 };

static void fill_task(void *arg, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  const fill_job *job = arg;
  int64_t size = job->dtype == GA_FP32 ? 4 : job->dtype == GA_INT8 || job->dtype == GA_FP8 ? 1 : 2;
  int64_t chunks = (job->n + FILL_CHUNK - 1) / FILL_CHUNK, from, to;
  ga_share(chunks, nthreads, tid, &from, &to);
  filler fill = best_filler();
  for (int64_t c = from; c < to; c++) {
    int64_t first = c * FILL_CHUNK, count = job->n - first < FILL_CHUNK ? job->n - first : FILL_CHUNK;
    char *dst = job->dst + first * size;
    if (job->dist == GA_ZEROS) {
      memset(dst, 0, (size_t)(count * size));
      continue;
    }
    uint64_t a = mix64(job->seed ^ mix64((uint64_t)first >> 32)), b = mix64(a);
    keys k = {(uint32_t)a, (uint32_t)(a >> 32), (uint32_t)b};
    fill(dst, job->dtype, job->dist, (uint32_t)first, (uint32_t)count, k);
  }
}

void ga_fill(ga_pool *pool, void *dst, ga_distribution dist, ga_dtype dtype, int64_t n, uint64_t seed) {
  fill_job job = {dst, dist, dtype, n, seed};
  // First touch places pages, so the threads that read also fill.
  ga_pool_run(pool, ga_pool_threads(pool), fill_task, &job);
}
