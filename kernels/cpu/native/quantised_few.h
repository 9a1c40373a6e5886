// Few rows times quantized weights. Each weight is read once, so the time per weight decides whether the
// kernel is memory-bound. It multiplies by integers, code less zero point, and scales the sums once per span,
// which is a group or part of it. Products of 9-bit integers and activations of up to 11 bits are exact in
// fp32. Tables for 4-bit codes are in memory, one per zero point. The includer defines the macros of
// quantised_words.h, and
//
//   TERMS             vectors of A per unit; A is their sum
//   FEW_COLUMNS(rows) columns of a quad multiplied at once, 2 or 4
//   integer_table(p)  the table of 16 adjacent elements of integers4
#ifndef GEMMAUDIT_QUANTISED_FEW_H
#define GEMMAUDIT_QUANTISED_FEW_H

#include "quantised_words.h"

// integers4 is -15 to 15; the 16 codes less a zero point are adjacent elements.
#if GROUP == 2
static const uint16_t integers4[32] __attribute__((aligned(64))) = {
    0xc170, 0xc160, 0xc150, 0xc140, 0xc130, 0xc120, 0xc110, 0xc100, 0xc0e0, 0xc0c0, 0xc0a0, 0xc080, 0xc040, 0xc000, 0xbf80, 0,
    0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110, 0x4120, 0x4130, 0x4140, 0x4150, 0x4160, 0x4170};
#else
static const float integers4[32] __attribute__((aligned(64))) = {
    -15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#endif

GA_INLINE table integers_from(int zero) { return integer_table(integers4 + 15 - zero); }

// integers8 returns a vector of words of packed 8-bit codes less zero points.
GA_INLINE lanes integers8(const int zeros, const char *p, lanes zero) {
  lanes low = floats_of((const uint8_t *)p);
  if (zeros) low -= zero;
#if GROUP == 2
  lanes high = floats_of((const uint8_t *)p + LANES);
  if (zeros) high -= zero;
  return join(low, high);
#else
  return low;
#endif
}

enum { A_BYTES = 4 * TERMS / GROUP }; // of a row of A, per k

// WIDENED is the number of groups whose scales, for four columns, fill a vector: a block of 4-bit codes with
// groups of 32 k.
enum { WIDENED = LANES / GA_QUAD };

// scaled is the position of a span's group among the groups with widened scales.
typedef struct {
  const ga_weights *w;
  const uint16_t *scales;
  const uint8_t *zeros;   // of the group
  int64_t left, each;     // remaining and total spans of the group
  int64_t behind, ahead;  // later groups, and the prefetch distance of scales
  int in;
  float scale[LANES];
} scaled;

GA_INLINE void widen_scales(scaled *s) {
  __builtin_prefetch((const char *)s->scales + s->ahead);
  store(GA_FP32, s->scale, 0, widened(s->w, s->scales));
}

GA_INLINE scaled scaled_from(const ga_gemm *g, const char *quad, int64_t k, int64_t span, int64_t ahead) {
  const ga_weights *w = &g->weights;
  int64_t groups = g->k / w->group, of = k / w->group < groups ? k / w->group : groups - 1;
  scaled s = {.w = w, .each = w->group / span, .behind = groups - 1 - of, .in = (int)(of % WIDENED), .ahead = ahead};
  s.scales = (const uint16_t *)quad + of / WIDENED * LANES;
  s.zeros = (const uint8_t *)quad + (groups * 2 + of) * GA_QUAD;
  s.left = s.each - (k - of * w->group) / span;
  widen_scales(&s);
  return s;
}

// next_span advances by a span. Padding beyond K belongs to the last group.
GA_INLINE void next_span(scaled *s) {
  if (s->left == 0 && s->behind > 0) {
    s->left = s->each;
    s->behind--;
    s->zeros += GA_QUAD;
    __builtin_prefetch(s->zeros + s->ahead);
    if (++s->in == WIDENED) {
      s->in = 0;
      s->scales += LANES;
      widen_scales(s);
    }
  }
  s->left--;
}

// few_unit adds R rows × C columns of a unit and returns A's next unit.
GA_INLINE const char *few_unit(const int R, const int C, const lanes w[GA_QUAD], const char *a, lanes sum[ROWS][GA_QUAD]) {
  _Pragma("GCC unroll 2") for (int t = 0; t < TERMS; t++)
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) {
      lanes x = words_at(a, t * R + r);
      _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) sum[r][c] = step(sum[r][c], w[c], x);
    }
  return a + TERMS * R * VECTOR;
}

// few_columns adds R rows × C columns of a quad, starting at column `first`, for k from k0 to k1. A span is
// 32 k, a block of 4-bit codes, or 128 k of 8-bit codes. With groups of 32 k, whole means that k0 and k1 are
// block boundaries, so a block's groups have their scales widened together.
GA_INLINE void few_columns(const int R, const int C, const int bits, const int zeros, const int span, const int whole,
                           const ga_gemm *g, const char *quad, int first, int64_t k0, int64_t k1, int64_t ahead,
                           const char *a, lanes total[ROWS][GA_QUAD]) {
  const ga_weights *w = &g->weights;
  const int bytes = bits == 8 ? BYTES8 : BYTES4;
  if (k0 >= k1) return;
  scaled s = scaled_from(g, quad, k0, span, ahead);
  const char *at = quad + ga_quad_header(w, g->k) + k0 * bits / 8 * GA_QUAD + first * bytes;
  table t[GA_QUAD];
  if (bits == 4 && !zeros) t[0] = integers_from(8);
  const int step_k = bits == 4 ? BLOCK4 : span;
  for (int64_t k = k0; k < k1; k += step_k) {
    if (bits == 4)
      for (int l = 0; l < BYTES4 * C; l += 64) __builtin_prefetch(at + ahead + l);
    if (whole && k > k0) {
      s.scales += LANES;
      s.zeros += LANES;
      widen_scales(&s);
      if (zeros) __builtin_prefetch(s.zeros + ahead);
    }
    _Pragma("GCC unroll 4") for (int part = 0; part < step_k / span; part++) {
      if (!whole) next_span(&s);
      const uint8_t *zero = s.zeros + (whole ? part * GA_QUAD : 0) + first;
      lanes sum[ROWS][GA_QUAD];
      _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
        _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) sum[r][c] = (lanes){0};
      if (bits == 4) {
        if (zeros)
          _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) t[c] = integers_from(zero[c]);
        _Pragma("GCC unroll 8") for (int j = part * (span / UNIT); j < (part + 1) * (span / UNIT); j++) {
          lanes x[GA_QUAD];
          _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) x[c] = look_up(&t[zeros ? c : 0], load_codes(at + c * BYTES4), j);
          a = few_unit(R, C, x, a, sum);
        }
      } else {
        lanes z[GA_QUAD];
        if (zeros)
          _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) z[c] = all((float)(int8_t)zero[c]);
        _Pragma("GCC unroll 4") for (int b = 0; b < span / 32; b++, at += BYTES8 * GA_QUAD) {
          for (int l = 0; l < BYTES8 * C; l += 64) __builtin_prefetch(at + ahead + l);
          _Pragma("GCC unroll 8") for (int j = 0; j < 32 / UNIT; j++) {
            lanes x[GA_QUAD];
            _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) x[c] = integers8(zeros, at + c * BYTES8 + j * UNIT, z[c]);
            a = few_unit(R, C, x, a, sum);
          }
        }
      }
      const float *scale = s.scale + (whole ? part : s.in) * GA_QUAD + first;
      _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) {
        lanes by = all(scale[c]);
        _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) total[r][c] = GA_FUSED(sum[r][c], by, total[r][c]);
      }
    }
    if (bits == 4) at += BYTES4 * GA_QUAD;
  }
}

GA_INLINE void few_rows(const int R, const int bits, const int zeros, const int span, const int whole, const ga_gemm *g,
                        const char *quad, int64_t k0, int64_t k1, int64_t ahead, const char *a, char *sums, int set) {
  const int C = FEW_COLUMNS(R);
  _Pragma("GCC unroll 2") for (int first = 0; first < GA_QUAD; first += C, sums += C * VECTOR) {
    lanes total[ROWS][GA_QUAD];
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
      _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) total[r][c] = set ? (lanes){0} : words_at(sums, r * GA_QUAD + c);
    int64_t k = k0;
    if (whole) {
      k = k1 < g->k / BLOCK4 * BLOCK4 ? k1 : g->k / BLOCK4 * BLOCK4;
      few_columns(R, C, bits, zeros, span, 1, g, quad, first, k0, k, ahead, a, total);
    }
    if (k < k1) few_columns(R, C, bits, zeros, span, 0, g, quad, first, k, k1, ahead, a + (k - k0) * A_BYTES * R, total);
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
      _Pragma("GCC unroll 4") for (int c = 0; c < C; c++)
        *(lanes_anywhere *)(sums + (r * GA_QUAD + c) * VECTOR) = total[r][c];
  }
}

#define GA_FEW_CASE(rows, bits, zeros, span, whole) \
  case rows: few_rows(rows, bits, zeros, span, whole, g, quad, k0, k1, ahead, a, sums, set); break;
#if ROWS == 5
#define GA_FEW_MORE(bits, zeros, span, whole) GA_FEW_CASE(5, bits, zeros, span, whole)
#else
#define GA_FEW_MORE(bits, zeros, span, whole)
#endif

#define GA_FEW(name, bits, zeros, span, whole)                                                                                  \
  static void name(const ga_gemm *g, int rows, const char *quad, int64_t k0, int64_t k1, int64_t ahead, const char *a,  \
                   char *sums, int set) {                                                                                \
    switch (rows) {                                                                                                      \
      GA_FEW_CASE(1, bits, zeros, span, whole)                                                                                  \
      GA_FEW_CASE(2, bits, zeros, span, whole)                                                                                  \
      GA_FEW_CASE(3, bits, zeros, span, whole)                                                                                  \
      GA_FEW_CASE(4, bits, zeros, span, whole)                                                                                  \
      GA_FEW_MORE(bits, zeros, span, whole)                                                                                     \
    }                                                                                                                    \
  }
GA_FEW(few4, 4, 0, BLOCK4, 0)
GA_FEW(few4_zeros, 4, 1, BLOCK4, 0)
#if LANES > 4
GA_FEW(few4_short, 4, 0, 32, 0)
GA_FEW(few4_short_zeros, 4, 1, 32, 0)
GA_FEW(few4_32, 4, 0, 32, 1)
GA_FEW(few4_32_zeros, 4, 1, 32, 1)
#endif
#if TERMS == 1
#if LANES > 4
GA_FEW(few8, 8, 0, 128, 0)
GA_FEW(few8_zeros, 8, 1, 128, 0)
#endif
GA_FEW(few8_short, 8, 0, 32, 0)
GA_FEW(few8_short_zeros, 8, 1, 32, 0)
#endif

#if LANES > 4
static int spans(const ga_gemm *g, int64_t span) {
  const ga_weights *w = &g->weights;
  return w->group % span == 0 || (w->group == g->k && ga_quantised_k(w, g->k) % span == 0);
}
#endif

static void few_multiply(const ga_gemm *g, int rows, const char *quad, int64_t k0, int64_t k1, int64_t ahead, const char *a,
                         char *sums, int set) {
  int zeros = g->weights.zeros;
#if TERMS == 1
  if (g->weights.bits == 8) {
#if LANES > 4
    if (spans(g, 128)) {
      (zeros ? few8_zeros : few8)(g, rows, quad, k0, k1, ahead, a, sums, set);
      return;
    }
#endif
    (zeros ? few8_short_zeros : few8_short)(g, rows, quad, k0, k1, ahead, a, sums, set);
    return;
  }
#endif
#if LANES > 4
  if (g->weights.group == 32) {
    (zeros ? few4_32_zeros : few4_32)(g, rows, quad, k0, k1, ahead, a, sums, set);
    return;
  }
  if (!spans(g, BLOCK4)) {
    (zeros ? few4_short_zeros : few4_short)(g, rows, quad, k0, k1, ahead, a, sums, set);
    return;
  }
#endif
  (zeros ? few4_zeros : few4)(g, rows, quad, k0, k1, ahead, a, sums, set);
}

#endif
