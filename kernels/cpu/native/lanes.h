// Vectors of LANES floats. The includer defines LANES and the macros below; the rest uses the compiler's
// vector extensions.
//
//   GA_FUSED(a, b, c)  a·b+c (cgo prevents the compiler from contracting)
//   GA_QUARTER(x, i)   the i-th four lanes
//   GA_LOW, GA_HIGH, GA_FRONT, GA_BACK  shuffles of two vectors within each four lanes
//   GA_LOAD_FP16, GA_STORE_FP16  if the instruction set converts fp16
//   GA_LOAD_BF16       if the compiler needs several instructions to widen
#ifndef GEMMAUDIT_LANES_H
#define GEMMAUDIT_LANES_H

#include <math.h>
#include <string.h>

#include "convert.h"
#include "pack.h"

#define GA_INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(LANES * 4)));
typedef int32_t words __attribute__((vector_size(LANES * 4)));
typedef uint16_t halves __attribute__((vector_size(LANES * 2)));
typedef lanes lanes_anywhere __attribute__((aligned(4), may_alias));
typedef halves halves_anywhere __attribute__((aligned(2), may_alias));

GA_INLINE lanes all(float x) { return x - (lanes){0}; } // exact, and folded

GA_INLINE lanes pick(words mask, lanes yes, lanes no) { return (lanes)((mask & (words)yes) | (~mask & (words)no)); }

GA_INLINE lanes larger(lanes a, lanes b) { return pick(a > b, a, b); }

// load widens LANES elements; type is a compile-time constant.
GA_INLINE lanes load(ga_dtype type, const void *p, int64_t i) {
  switch (type) {
    case GA_FP16: {
      const uint16_t *h = (const uint16_t *)p + i;
#if defined(GA_LOAD_FP16)
      return GA_LOAD_FP16(h);
#else
      lanes x;
      for (int l = 0; l < LANES; l++) x[l] = ga_fp16_to_float(h[l]);
      return x;
#endif
    }
    case GA_BF16: {
#if defined(GA_LOAD_BF16)
      return GA_LOAD_BF16((const uint16_t *)p + i);
#endif
      halves h = *(const halves_anywhere *)((const uint16_t *)p + i);
      return (lanes)(__builtin_convertvector(h, words) << 16);
    }
    default: return *(const lanes_anywhere *)((const float *)p + i);
  }
}

GA_INLINE void store(ga_dtype type, void *p, int64_t i, lanes x) {
  switch (type) {
    case GA_FP16: {
      uint16_t *h = (uint16_t *)p + i;
#if defined(GA_STORE_FP16)
      GA_STORE_FP16(h, x);
#else
      for (int l = 0; l < LANES; l++) h[l] = ga_float_to_fp16(x[l]);
#endif
      return;
    }
    case GA_BF16: {
      words u = (words)x, odd = (words)(((u >> 16) & 1) + 0x7fff);
      words rounded = ((u + odd) >> 16) & 0xffff, nan = ((u >> 16) & 0xffff) | 0x40;
      words is_nan = x != x;
      *(halves_anywhere *)((uint16_t *)p + i) = __builtin_convertvector((nan & is_nan) | (rounded & ~is_nan), halves);
      return;
    }
    default: *(lanes_anywhere *)((float *)p + i) = x;
  }
}

// load_some and store_some handle the last n < LANES elements of a row.
GA_INLINE lanes load_some(ga_dtype type, const void *p, int64_t i, int64_t n) {
  char edge[LANES * 4] = {0};
  memcpy(edge, (const char *)p + i * ga_size(type), (size_t)(n * ga_size(type)));
  return load(type, edge, 0);
}

GA_INLINE void store_some(ga_dtype type, void *p, int64_t i, int64_t n, lanes x) {
  char edge[LANES * 4];
  store(type, edge, 0, x);
  memcpy((char *)p + i * ga_size(type), edge, (size_t)(n * ga_size(type)));
}

GA_INLINE void widen(ga_dtype type, const void *p, int64_t n, float *out) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) store(GA_FP32, out, i, load(type, p, i));
  if (i < n) store_some(GA_FP32, out, i, n - i, load_some(type, p, i, n - i));
}

GA_INLINE void narrow(ga_dtype type, const float *in, int64_t n, void *p) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) store(type, p, i, load(GA_FP32, in, i));
  if (i < n) store_some(type, p, i, n - i, load_some(GA_FP32, in, i, n - i));
}

typedef float four __attribute__((vector_size(16), may_alias));

// GA_FOUR selects four elements of a (indices 0 to 3) and b (4 to 7).
#if defined(__clang__) || __GNUC__ >= 12
#define GA_FOUR(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int32_t four_words __attribute__((vector_size(16)));
#define GA_FOUR(a, b, i, j, k, l) __builtin_shuffle(a, b, (four_words){i, j, k, l})
#endif

// Sums and maxima over the lanes combine groups of four first.
GA_INLINE four fold(lanes x) {
  four sum = GA_QUARTER(x, 0);
  if (LANES == 16) return (sum + GA_QUARTER(x, 1)) + (GA_QUARTER(x, 2) + GA_QUARTER(x, 3));
  if (LANES == 8) sum += GA_QUARTER(x, 1);
  return sum;
}

GA_INLINE float sum_of(lanes x) {
  four v = fold(x);
  return (v[0] + v[2]) + (v[1] + v[3]);
}

GA_INLINE float largest_of(lanes x) {
  float top = -INFINITY;
  for (int q = 0; q < LANES / 4; q++) {
    four v = q == 0 ? GA_QUARTER(x, 0) : q == 1 ? GA_QUARTER(x, 1) : q == 2 ? GA_QUARTER(x, 2) : GA_QUARTER(x, 3);
    float a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
    if (b > a) a = b;
    if (a > top) top = a;
  }
  return top;
}

// exp2_of is 2^x for x <= 0, and 0 below -126. The minimax polynomial of degree 6 on [-1/2, 1/2] has an error
// of 2^-28.9; with rounding, the relative error is below 2^-23.
GA_INLINE lanes exp2_of(lanes x) {
  const lanes least = all(-126), shift = all(0x1.8p23f);
  words none = x < least;
  x = pick(none, least, x); // NaN stays
  lanes shifted = x + shift; // integer part in the low bits
  lanes f = x - (shifted - shift);
  lanes p = all(0x1.41a6fep-13f);
  p = GA_FUSED(p, f, all(0x1.5f44f0p-10f));
  p = GA_FUSED(p, f, all(0x1.3b2dfep-7f));
  p = GA_FUSED(p, f, all(0x1.c6aed6p-5f));
  p = GA_FUSED(p, f, all(0x1.ebfbdap-3f));
  p = GA_FUSED(p, f, all(0x1.62e430p-1f));
  p = GA_FUSED(p, f, all(1.0f));
  words power = (words)shifted << 23;
  return (lanes)((words)((lanes)((words)p + power)) & ~none);
}

#define GA_LOG2_E 1.44269504088896340736f

// GA_OF_TYPES calls the copy of a function for a type.
#define GA_OF_TYPES(type, function, ...)                      \
  switch (type) {                                             \
    case GA_FP16: function(GA_FP16, __VA_ARGS__); break;      \
    case GA_BF16: function(GA_BF16, __VA_ARGS__); break;      \
    default: function(GA_FP32, __VA_ARGS__); break;           \
  }

#endif
