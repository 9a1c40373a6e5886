// Softmax over the vectors of lanes.h. The includer also defines
//
//   GA_MAX(a, b)             the maximum; b if either is NaN
//   GA_STREAM(p, v)          a non-temporal store of floats to an aligned address
//   GA_STREAM_HALVES(p, v)   the same for 16-bit words
//   GA_FENCE()               the fence after them
//   GA_FLUSH_BEGIN, GA_FLUSH_END  code between them treats subnormals as zero
//
// and, if the instruction set has them,
//
//   GA_POWER(p, x)           p·2^n for the largest integer n <= x
//   GA_REST(x)               x - n, 0 for infinities
//   GA_PERMUTE(v, indices)   a permutation of all lanes
//   GA_LOAD_PART, GA_STORE_PART  the first n elements
//   GA_TOP_OF_HALVES(type, x, n)  the maximum of n elements, NaN if one is NaN, -Inf for n = 0
//   GA_HALVES_OF_BF16(x)     rounds to bf16
//   GA_ONE_TYPE              the only type to compile
//
// Kernels:
//
//   block   keeps a row's exponentials in cache as fp32 and reads memory once. It prefetches the next row meanwhile,
//           because stores come next and keep memory busy. Rows of up to REGISTERS vectors stay in registers, and
//           short rows share a vector.
//   reread  reads the row again to write it and computes its exponentials twice. With a maximum per segment, the
//           first read takes one pass (Milakov and Gimelshein 2018).
//   naive   makes three passes over the row: maximum, sum, quotient.
//
// Each thread computes separate rows; if there are few long rows, threads split each row into segments.
#ifndef GEMMAUDIT_SOFTMAX_LANES_H
#define GEMMAUDIT_SOFTMAX_LANES_H

#include <math.h>

#include "lanes.h"
#include "softmax.h"

// STAGE is the size in bytes of the buffer for short rows before non-temporal stores. Rows below DIRECT bytes
// use it, or below DIRECT_LINES for whole lines, because they would leave too many partial lines. Rows up to
// FETCHED bytes prefetch the next row, longer ones their next segment; AHEAD is the minimum prefetch
// distance. REGISTERS is half of the vector registers.
enum { SEGMENT = GA_SOFTMAX_SEGMENT, REGISTERS = LANES == 16 ? 16 : 8, STAGE = 16384, DIRECT = 2048, DIRECT_LINES = 1024, FETCHED = 262144, AHEAD = 16384 };

// softmax_exp2 is 2^x for x <= 0 (or slightly above after rounding), and NaN for NaN.
GA_INLINE lanes softmax_exp2(const ga_dtype type, lanes x) {
#if defined(GA_POWER)
  // Minimax polynomials of degree 6 and 5 on [0, 1], with errors of 2^-27 and 2^-23.
  const lanes f = GA_REST(x);
  lanes p;
  if (type == GA_FP32) {
    p = GA_FUSED(all(0x1.c72118p-13f), f, all(0x1.461954p-10f));
    p = GA_FUSED(p, f, all(0x1.3d2800p-7f));
    p = GA_FUSED(p, f, all(0x1.c68500p-5f));
    p = GA_FUSED(p, f, all(0x1.ebfd9ep-3f));
    p = GA_FUSED(p, f, all(0x1.62e42ap-1f));
    p = GA_FUSED(p, f, all(1.0f));
  } else {
    p = GA_FUSED(all(0x1.ec320ap-10f), f, all(0x1.26900cp-7f));
    p = GA_FUSED(p, f, all(0x1.c95446p-5f));
    p = GA_FUSED(p, f, all(0x1.ebd5a8p-3f));
    p = GA_FUSED(p, f, all(0x1.62e4f6p-1f));
    p = GA_FUSED(p, f, all(0x1.fffffep-1f));
  }
  return GA_POWER(p, x);
#else
  (void)type;
  words none = x < all(-126);
  x = pick(none, all(-126), x);
  lanes shifted = x + all(0x1.8000fep23f), n = shifted - all(0x1.8000fep23f), f = x - n; // the low bits hold the exponent
  // The polynomial of exp2_of.
  lanes p = all(0x1.41a6fep-13f);
  p = GA_FUSED(p, f, all(0x1.5f44f0p-10f));
  p = GA_FUSED(p, f, all(0x1.3b2dfep-7f));
  p = GA_FUSED(p, f, all(0x1.c6aed6p-5f));
  p = GA_FUSED(p, f, all(0x1.ebfbdap-3f));
  p = GA_FUSED(p, f, all(0x1.62e430p-1f));
  p = GA_FUSED(p, f, all(1.0f));
  lanes y = p * (lanes)((words)shifted << 23);
  return (lanes)((words)y & ~none);
#endif
}

// to_halves rounds to fp16 or bf16. The low 16 bits of a NaN are zero, because it comes from a bf16 NaN or
// from an instruction, so rounding keeps it.
GA_INLINE halves to_halves(const ga_dtype type, lanes x) {
  if (type == GA_FP16) {
    halves h;
    store(GA_FP16, &h, 0, x);
    return h;
  }
#if defined(GA_HALVES_OF_BF16)
  return GA_HALVES_OF_BF16(x);
#endif
  words u = (words)x;
  return __builtin_convertvector((u + (((u >> 16) & 1) + 0x7fff)) >> 16, halves);
}

GA_INLINE void put(const ga_dtype type, const int past, char *p, lanes x) {
  if (type == GA_FP32) {
    if (past) GA_STREAM((float *)(void *)p, x);
    else store(GA_FP32, p, 0, x);
    return;
  }
  halves h = to_halves(type, x);
  if (past) GA_STREAM_HALVES((uint16_t *)(void *)p, h);
  else *(halves_anywhere *)(void *)p = h;
}

// get_part pads with -Inf.
GA_INLINE lanes get_part(const ga_dtype type, const char *p, int64_t n) {
#if defined(GA_LOAD_PART)
  return GA_LOAD_PART(type, p, n);
#else
  float edge[LANES];
  for (int l = 0; l < LANES; l++) edge[l] = -INFINITY;
  lanes x = load_some(type, p, 0, n);
  memcpy(edge, &x, (size_t)n * 4);
  return load(GA_FP32, edge, 0);
#endif
}

GA_INLINE void put_part(const ga_dtype type, char *p, int64_t n, lanes x) {
#if defined(GA_STORE_PART)
  GA_STORE_PART(type, p, n, x);
#else
  store_some(type, p, 0, n, x);
#endif
}

// Ways to write elements: scaled exponentials that were kept; exponentials or logarithms of elements read
// again; or a constant.
enum { KEPT, AGAIN, LOGARITHM, FILL };

typedef struct {
  const float *kept;
  const char *x;
  float top, k, by, log;
} emission;

// joined returns the maximum and sum of a row. For a row with NaN, they are NaN or lead to NaN.
static ga_softmax_part joined(const ga_softmax_part *parts, int64_t segments, float k) {
  if (segments == 1) return parts[0];
  float top = -INFINITY;
  for (int64_t s = 0; s < segments; s++)
    if (parts[s].top > top) top = parts[s].top;
  double sum = 0;
  for (int64_t s = 0; s < segments; s++) sum += parts[s].sum * exp2(((double)parts[s].top - top) * k);
  return (ga_softmax_part){top, (float)sum};
}

GA_INLINE int64_t seen_of(const ga_softmax *s, int64_t row) {
  return s->queries == 0 ? s->columns : row % s->queries + s->columns - s->queries + 1;
}

#if defined(GA_PERMUTE)
GA_INLINE words in_groups(int step) {
  words w;
  for (int l = 0; l < LANES; l++) w[l] = l ^ step;
  return w;
}

// group_max and group_sum reduce each group of width lanes (a power of two) and broadcast the result to the
// group.
GA_INLINE lanes group_max(lanes x, int width) {
  if (width > 8 && LANES > 8) x = GA_MAX(GA_PERMUTE(x, in_groups(8)), x);
  if (width > 4) x = GA_MAX(GA_PERMUTE(x, in_groups(4)), x);
  if (width > 2) x = GA_MAX(GA_PERMUTE(x, in_groups(2)), x);
  if (width > 1) x = GA_MAX(GA_PERMUTE(x, in_groups(1)), x);
  return x;
}

GA_INLINE lanes group_sum(lanes x, int width) {
  if (width > 8 && LANES > 8) x += GA_PERMUTE(x, in_groups(8));
  if (width > 4) x += GA_PERMUTE(x, in_groups(4));
  if (width > 2) x += GA_PERMUTE(x, in_groups(2));
  if (width > 1) x += GA_PERMUTE(x, in_groups(1));
  return x;
}

// largest_lane is the largest of x, which has no NaN.
GA_INLINE float largest_lane(lanes x) { return group_max(x, LANES)[0]; }
#else
GA_INLINE float largest_lane(lanes x) { return largest_of(x); }
#endif

// log_of is the natural logarithm of x >= 1, and NaN for NaN. With s = (m-1)/(m+1) for the mantissa m between
// √½ and √2, log m is 2·(s + s³/3 + s⁵/5 + s⁷/7), with an error below 2^-24.
GA_INLINE lanes log_of(lanes x) {
  words w = (words)x - 0x3f3504f3;
  lanes exponent = __builtin_convertvector(w >> 23, lanes);
  lanes m = (lanes)((w & 0x7fffff) + 0x3f3504f3);
  lanes s = (m - 1) / (m + 1), t = s * s;
  lanes p = GA_FUSED(GA_FUSED(GA_FUSED(t, all(1.0f / 7), all(1.0f / 5)), t, all(1.0f / 3)), t, all(1));
  return GA_FUSED(exponent, all(0.693147180559945f), 2 * s * p) + (x - x);
}

// copy_past copies with non-temporal stores. Both addresses have the same offset within a vector.
GA_INLINE void copy_past(char *out, const char *from, int64_t bytes) {
  const int64_t vector = LANES * 4;
  int64_t head = (vector - (int64_t)((uintptr_t)out % (uintptr_t)vector)) % vector, i;
  if (head > bytes) head = bytes;
  memcpy(out, from, (size_t)head);
  for (i = head; i + vector <= bytes; i += vector) GA_STREAM((float *)(void *)(out + i), load(GA_FP32, from + i, 0));
  memcpy(out + i, from + i, (size_t)(bytes - i));
}

// together reports whether threads split each row into segments: if rows are long and too few to balance
// threads.
GA_INLINE int together(const ga_softmax *s, int nthreads) {
  return nthreads > 1 && s->segments >= 2 * nthreads && s->rows % nthreads != 0 && s->rows < 8 * nthreads;
}

#define GA_JOIN(a, b) a##_##b
#define GA_NAMED(a, b) GA_JOIN(a, b)

#if defined(GA_ONE_TYPE)
#define TYPE GA_ONE_TYPE
#define NAME(function) GA_NAMED(function, one)
#include "softmax_rows.h"
#undef TYPE
#undef NAME

#define GA_SOFTMAX_KERNEL(kernel, function, ...)                                                        \
  static void kernel(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {             \
    GA_FLUSH_BEGIN                                                                                        \
    GA_NAMED(function, one)(g->plan, tid, nthreads, scratch, team, __VA_ARGS__);                           \
    GA_FLUSH_END                                                                                          \
  }
#else
#define TYPE GA_FP32
#define NAME(function) GA_NAMED(function, fp32)
#include "softmax_rows.h"
#undef TYPE
#undef NAME

#define TYPE GA_FP16
#define NAME(function) GA_NAMED(function, fp16)
#include "softmax_rows.h"
#undef TYPE
#undef NAME

#define TYPE GA_BF16
#define NAME(function) GA_NAMED(function, bf16)
#include "softmax_rows.h"
#undef TYPE
#undef NAME

// GA_SOFTMAX_KERNEL defines a kernel that calls a function for its plan's type.
#define GA_SOFTMAX_KERNEL(kernel, function, ...)                                                        \
  static void kernel(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {             \
    const ga_softmax *s = g->plan;                                                                        \
    GA_FLUSH_BEGIN                                                                                        \
    switch (s->dtype) {                                                                                   \
      case GA_FP16: GA_NAMED(function, fp16)(s, tid, nthreads, scratch, team, __VA_ARGS__); break;         \
      case GA_BF16: GA_NAMED(function, bf16)(s, tid, nthreads, scratch, team, __VA_ARGS__); break;         \
      default: GA_NAMED(function, fp32)(s, tid, nthreads, scratch, team, __VA_ARGS__); break;              \
    }                                                                                                     \
    GA_FLUSH_END                                                                                          \
  }

#endif

GA_SOFTMAX_KERNEL(softmax_block, softmax, 1)
GA_SOFTMAX_KERNEL(softmax_reread, softmax, 0)
GA_SOFTMAX_KERNEL(softmax_naive, naive, 0)

#endif
