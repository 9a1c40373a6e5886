// Strips of 4-bit weights (strips.h) over vectors (lanes.h) of as many columns. Per 8 weights and row, exact products
// take three multiplications and three additions of a quarter of a vector each, less than a conversion to floats.
// The includer defines the macros of lanes.h, and
//
//   ROWS, ROUNDED_ROWS     maximum rows of a tile, with three limbs and with one
//   dot(sum, codes, a)     adds products of unsigned and signed bytes to sums
//   total_of(sum, by)      the sums as words, times 1 or 256
//   repeated(p)            four bytes in all words
//   multiplied(x, y)       products of words
//   largest_word(x), sum_of_words(x)
//   put_bytes(p, words)    stores GA_BLOCK_K words as bytes
#ifndef GEMMAUDIT_STRIPS_LANES_H
#define GEMMAUDIT_STRIPS_LANES_H

#include "strips.h"

enum { VECTOR = LANES * 4, CODE_VECTORS = 4, PAIR = GA_STRIP_PAIR };

// A tile of packed rows is read once per strip; the distance covers memory latency, as in gemv.c.
enum { AHEAD_BYTES = 4096 };

typedef uint32_t unsigned_words __attribute__((vector_size(LANES * 4)));
typedef words words_anywhere __attribute__((aligned(1), may_alias));
typedef unsigned_words unsigned_words_anywhere __attribute__((aligned(1), may_alias));

GA_INLINE words same(int32_t x) { return x - (words){0}; }

typedef uint8_t bytes_of_lanes __attribute__((vector_size(LANES)));
typedef bytes_of_lanes bytes_anywhere __attribute__((aligned(1), may_alias));

GA_INLINE words zeros_at(const uint8_t *p) { return __builtin_convertvector(*(const bytes_anywhere *)p, words); }

GA_INLINE lanes scales_at(const ga_weights *w, const uint16_t *p) {
  return w->scale == GA_BF16 ? load(GA_BF16, p, 0) : load(GA_FP16, p, 0);
}

// place is a position among the groups of a strip. Padding beyond K belongs to the last group.
typedef struct {
  const ga_weights *w;
  const uint16_t *scales;
  const uint8_t *zeros;
  int64_t left, behind; // blocks of the group, and later groups
} place;

GA_INLINE place place_at(const ga_gemm *g, const char *strip, int64_t k) {
  const ga_weights *w = &g->weights;
  int64_t groups = g->k / w->group, of = k / w->group < groups ? k / w->group : groups - 1;
  place p = {.w = w, .behind = groups - 1 - of, .left = (w->group + of * w->group - k + GA_BLOCK_K - 1) / GA_BLOCK_K};
  p.scales = (const uint16_t *)strip + of * LANES;
  p.zeros = (const uint8_t *)strip + (groups * 2 + of) * LANES;
  return p;
}

// next_block reports whether the block after this one belongs to another group.
GA_INLINE int next_block(place *p) {
  if (--p->left > 0 || p->behind == 0) return 0;
  p->behind--;
  p->left = p->w->group / GA_BLOCK_K;
  p->scales += LANES;
  p->zeros += LANES;
  return 1;
}

// group_at loads the scales and zero points of S strips, apart bytes from each other.
GA_INLINE void group_at(const int S, const int zeros, const place *p, int64_t apart, lanes scale[PAIR], words zero[PAIR]) {
  _Pragma("GCC unroll 2") for (int s = 0; s < S; s++) {
    scale[s] = scales_at(p->w, (const uint16_t *)((const char *)p->scales + s * apart));
    zero[s] = zeros ? zeros_at(p->zeros + s * apart) : (words){0};
  }
}

// The header of a packed row's block.
typedef struct {
  float scale;
  int32_t sum; // of the integers; times 8 without zero points
} limb_header;

// IN_ORDER keeps GCC from adding products in pairs, which takes more registers than there are.
#define IN_ORDER(x) __asm__("" : "+v"(x))

GA_INLINE words codes_at(const char *p, int half) {
  words x = *(const words_anywhere *)p;
  return (half ? (words)((unsigned_words)x >> 4) : x) & 0x0f0f0f0f;
}

// multiply_block multiplies R rows by a block of S strips, apart bytes from each other. Results are [R][S].
GA_INLINE void multiply_block(const int R, const int S, const int L, const char *codes, int64_t apart, const char *a,
                              words out[ROUNDED_ROWS]) {
  const int each = 8 + GA_BLOCK_K * L;
  words sum[ROUNDED_ROWS][GA_EXACT_LIMBS];
  _Pragma("GCC unroll 8") for (int i = 0; i < R * S; i++)
    _Pragma("GCC unroll 4") for (int l = 0; l < L; l++) sum[i][l] = (words){0};
  _Pragma("GCC unroll 8") for (int v = 0; v < 2 * CODE_VECTORS; v++) {
    words x[PAIR];
    _Pragma("GCC unroll 2") for (int s = 0; s < S; s++) x[s] = codes_at(codes + s * apart + v / 2 * VECTOR, v % 2);
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
      _Pragma("GCC unroll 4") for (int l = 0; l < L; l++) {
        words by = repeated(a + r * each + 8 + l * GA_BLOCK_K + v * 4);
        if (S > 1) IN_ORDER(by); // one load for all strips
        _Pragma("GCC unroll 2") for (int s = 0; s < S; s++) {
          sum[r * S + s][l] = dot(sum[r * S + s][l], x[s], by);
          IN_ORDER(sum[r * S + s][l]);
        }
      }
  }
  _Pragma("GCC unroll 8") for (int i = 0; i < R * S; i++) {
    if (L == 1) out[i] = total_of(sum[i][0], 1);
    else out[i] = ((total_of(sum[i][0], 256) + total_of(sum[i][1], 1)) << 8) + total_of(sum[i][2], 1);
  }
}

GA_INLINE void multiply_rows(const int R, const int S, const int L, const int zeros, const ga_gemm *g, const char *strip,
                             const char *a, float *sums) {
  const ga_weights *w = &g->weights;
  const int each = 8 + GA_BLOCK_K * L;
  const int64_t apart = ga_strip_bytes(w, g->k);
  lanes total[ROUNDED_ROWS];
  _Pragma("GCC unroll 8") for (int i = 0; i < R * S; i++) total[i] = (lanes){0};
  place p = place_at(g, strip, 0);
  const char *codes = strip + ga_strip_header(w, g->k), *end = strip + apart;
  lanes scale[PAIR];
  words zero[PAIR];
  group_at(S, zeros, &p, apart, scale, zero);
  // Strips follow each other, so scales are fetched with the codes: share is a strip's bytes per block. The strips
  // after these begin S strips later.
  int64_t share = apart / ((end - codes) / (CODE_VECTORS * VECTOR)) + 1, behind = AHEAD_BYTES / apart;
  const char *ahead = strip + AHEAD_BYTES + behind * (S - 1) * apart, *turn = strip + (behind * S + 1) * apart;
  while (codes < end) {
    _Pragma("GCC unroll 2") for (int s = 0; s < S; s++)
      for (int l = 0; l < CODE_VECTORS * VECTOR + 64; l += 64) __builtin_prefetch(ahead + s * apart + l);
    ahead += share;
    if (S > 1 && ahead >= turn) {
      ahead += (S - 1) * apart;
      turn += S * apart;
    }
    words sum[ROUNDED_ROWS];
    multiply_block(R, S, L, codes, apart, a, sum);
    _Pragma("GCC unroll 8") for (int i = 0; i < R * S; i++) {
      const limb_header *h = (const limb_header *)(const void *)(a + i / S * each);
      words x = sum[i] - (zeros ? multiplied(zero[i % S], same(h->sum)) : same(h->sum));
      total[i] = GA_FUSED(__builtin_convertvector(x, lanes) * all(h->scale), scale[i % S], total[i]);
    }
    codes += CODE_VECTORS * VECTOR;
    a += R * each;
    if (next_block(&p)) group_at(S, zeros, &p, apart, scale, zero);
  }
  _Pragma("GCC unroll 8") for (int i = 0; i < R * S; i++)
    store(GA_FP32, sums, i / S * GA_PANEL + i % S * LANES, total[i]);
}

#define GA_STRIP_CASE(rows, limbs, zeros) \
  case rows: multiply_rows(rows, 1, limbs, zeros, g, strip, a, sums); break;
#define GA_STRIP_FUNCTION(name, limbs, zeros, more)                                                                    \
  static void name(const ga_gemm *g, int rows, int strips, const char *strip, const char *a, float *sums) {            \
    if (strips == PAIR) multiply_rows(1, PAIR, limbs, zeros, g, strip, a, sums);                                       \
    else switch (rows) {                                                                                               \
      GA_STRIP_CASE(1, limbs, zeros)                                                                                   \
      GA_STRIP_CASE(2, limbs, zeros)                                                                                   \
      GA_STRIP_CASE(3, limbs, zeros)                                                                                   \
      GA_STRIP_CASE(4, limbs, zeros)                                                                                   \
      more(limbs, zeros)                                                                                               \
    }                                                                                                                  \
  }
#define GA_STRIP_NONE(limbs, zeros)
#define GA_STRIP_MORE(limbs, zeros)                                    \
  GA_STRIP_CASE(5, limbs, zeros)                                       \
  GA_STRIP_CASE(6, limbs, zeros)                                       \
  GA_STRIP_CASE(7, limbs, zeros)                                       \
  GA_STRIP_CASE(8, limbs, zeros)
GA_STRIP_FUNCTION(exact, 3, 0, GA_STRIP_NONE)
GA_STRIP_FUNCTION(exact_zeros, 3, 1, GA_STRIP_NONE)
GA_STRIP_FUNCTION(rounded, 1, 0, GA_STRIP_MORE)
GA_STRIP_FUNCTION(rounded_zeros, 1, 1, GA_STRIP_MORE)

static void strip_multiply(const ga_gemm *g, int rows, int strips, const char *strip, const char *a, float *sums) {
  const ga_weights *w = &g->weights;
  if (w->limbs == 1) (w->zeros ? rounded_zeros : rounded)(g, rows, strips, strip, a, sums);
  else (w->zeros ? exact_zeros : exact)(g, rows, strips, strip, a, sums);
}

GA_INLINE lanes block_part(const ga_dtype type, const void *row, int64_t from, int64_t k) {
  return from + LANES <= k ? load(type, row, from) : from < k ? load_some(type, row, from, k - from) : (lanes){0};
}

// 1.5·2^23 added to a smaller number leaves its nearest integer in the low bits.
#define INTEGER_SHIFT 0x1.8p23f

GA_INLINE int pack_row(const ga_dtype type, const int limbs, const ga_gemm *g, const void *row, int64_t apart, char *out) {
  const ga_weights *w = &g->weights;
  int finite = 1;
  for (int64_t k = 0; k < g->k; k += GA_BLOCK_K, out += apart) {
    lanes x[GA_BLOCK_K / LANES];
    words top = {0};
    _Pragma("GCC unroll 4") for (int i = 0; i < GA_BLOCK_K / LANES; i++) {
      x[i] = block_part(type, row, k + i * LANES, g->k);
      words size = (words)x[i] & 0x7fffffff;
      words larger_size = size > top;
      top = (larger_size & size) | (~larger_size & top);
    }
    int32_t most = largest_word(top);
    if (most >= 0x7f800000) finite = 0;
    float scale, inverse;
    if (limbs == 1) {
      scale = ga_float_of((uint32_t)most) / 127;
      if (!(scale > 0x1p-126f)) scale = 0x1p-126f;
      inverse = 1 / scale;
    } else {
      // The largest element becomes 2^21 to 2^22. Blocks below 2^-105, with a scale below 2^-126, keep fewer bits.
      int exponent = most >> 23;
      if (exponent < 22) exponent = 22;
      scale = ga_float_of((uint32_t)(exponent - 21) << 23);
      inverse = ga_float_of((uint32_t)(275 - exponent) << 23);
    }
    words sum = {0}, q[GA_BLOCK_K / LANES];
    _Pragma("GCC unroll 4") for (int i = 0; i < GA_BLOCK_K / LANES; i++) {
      q[i] = (words)GA_FUSED(x[i], all(inverse), all(INTEGER_SHIFT)) - 0x4b400000;
      sum += q[i];
      if (limbs == GA_EXACT_LIMBS) q[i] = (q[i] + 0x808080) ^ 0x808080; // two's complement to signed digits
    }
    for (int l = 0; l < limbs; l++) {
      words digits[GA_BLOCK_K / LANES];
      _Pragma("GCC unroll 4") for (int i = 0; i < GA_BLOCK_K / LANES; i++) digits[i] = q[i] << (8 * (l + 4 - limbs)) >> 24;
      put_bytes(out + 8 + l * GA_BLOCK_K, digits);
    }
    limb_header h = {scale, sum_of_words(sum)};
    if (!w->zeros) h.sum *= 8;
    memcpy(out, &h, sizeof h);
  }
  return finite;
}

GA_INLINE int pack_rows(const ga_dtype type, const int limbs, const ga_gemm *g, int64_t row, int rows, char *out) {
  const int64_t each = 8 + GA_BLOCK_K * limbs;
  int finite = 1;
  for (int r = 0; r < rows; r++)
    finite &= pack_row(type, limbs, g, (const char *)g->a + (row + r) * g->lda * ga_size(g->dtype), rows * each, out + r * each);
  return finite;
}

static int strip_pack(const ga_gemm *g, int64_t row, int rows, char *out) {
  if (g->weights.limbs == 1)
    return g->dtype == GA_BF16 ? pack_rows(GA_BF16, 1, g, row, rows, out) : pack_rows(GA_FP16, 1, g, row, rows, out);
  return g->dtype == GA_BF16 ? pack_rows(GA_BF16, 3, g, row, rows, out) : pack_rows(GA_FP16, 3, g, row, rows, out);
}

// decode_block writes the weights of a block, without rounding, to rows of pitch floats.
GA_INLINE void decode_block(const char *codes, lanes scale, lanes base, float *out, const int pitch) {
  _Pragma("GCC unroll 4") for (int v = 0; v < CODE_VECTORS; v++) {
    unsigned_words x = *(const unsigned_words_anywhere *)(codes + v * VECTOR);
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) {
      words code = (words)(i == 7 ? x >> 28 : x >> (i % 4 * 8 + i / 4 * 4) & 15);
      store(GA_FP32, out, (v * 8 + i) * pitch, GA_FUSED(__builtin_convertvector(code, lanes), scale, base));
    }
  }
}

// base_at is the weight of code 0. Products of a scale and a zero point are exact.
GA_INLINE lanes base_at(const place *p, lanes scale) {
  return p->w->zeros ? -__builtin_convertvector(zeros_at(p->zeros), lanes) * scale : all(-8) * scale;
}

static void strip_decode(const ga_gemm *g, const char *panel, int64_t k0, int64_t k, int64_t ahead, void *out) {
  const ga_weights *w = &g->weights;
  int64_t each = ga_strip_bytes(w, g->k), header = ga_strip_header(w, g->k);
  for (int c = 0; c < GA_PANEL; c += LANES, panel += each) {
    place p = place_at(g, panel, k0);
    const char *codes = panel + header + k0 / 2 * LANES;
    float *to = (float *)out + c;
    lanes scale = scales_at(w, p.scales), base = base_at(&p, scale);
    for (int64_t at = 0; at < k; at += GA_BLOCK_K, codes += CODE_VECTORS * VECTOR, to += GA_BLOCK_K * GA_PANEL) {
      for (int l = 0; l < CODE_VECTORS * VECTOR; l += 64) __builtin_prefetch(codes + ahead + l, 0, 2);
      decode_block(codes, scale, base, to, GA_PANEL);
      if (next_block(&p)) {
        scale = scales_at(w, p.scales);
        base = base_at(&p, scale);
      }
    }
  }
}

static void strip_floats(const ga_gemm *g, int64_t row, int rows, const char *strip, float *sums) {
  const ga_weights *w = &g->weights;
  for (int r = 0; r < rows; r++) {
    const char *a = (const char *)g->a + (row + r) * g->lda * ga_size(g->dtype);
    place p = place_at(g, strip, 0);
    const char *codes = strip + ga_strip_header(w, g->k);
    lanes total = {0};
    for (int64_t k = 0; k < g->k; k += GA_BLOCK_K, codes += CODE_VECTORS * VECTOR) {
      float weights[GA_BLOCK_K * LANES];
      lanes scale = scales_at(w, p.scales);
      decode_block(codes, scale, base_at(&p, scale), weights, LANES);
      int64_t some = g->k - k < GA_BLOCK_K ? g->k - k : GA_BLOCK_K;
      for (int64_t i = 0; i < some; i++) {
        uint16_t half;
        memcpy(&half, a + (k + i) * 2, 2);
        float x = g->dtype == GA_BF16 ? ga_bf16_to_float(half) : ga_fp16_to_float(half);
        total = GA_FUSED(load(GA_FP32, weights, i * LANES), all(x), total);
      }
      next_block(&p);
    }
    store(GA_FP32, sums, r * GA_PANEL, total);
  }
}

static const struct ga_strip_code strip_code = {ROWS, ROUNDED_ROWS, strip_pack, strip_multiply, strip_floats};

#define GA_STRIP_FORM(text) \
  {.name = text, .lanes = LANES, .group = 1, .decode = strip_decode, .strip = LANES, .code = &strip_code}

#endif
