// More rows times quantized weights, over vectors (lanes.h). Weights are decoded to the type of A and rounded
// once. The includer defines the macros of quantised_words.h, and
//
//   COLUMNS(rows)     columns of a quad multiplied at once, 2 or 4
//   TILE              rows added at once, for four columns
//   table_of(values)  the table of 16 codes from 16 / LANES vectors of weights
//   PAIRED            1 if units 2j and 2j + 1 of 4-bit codes are the even and the odd k of 2 · LANES
//   even(x, y), odd(x, y)  even and odd elements of two vectors, if PAIRED
//   transpose(v)      transposes LANES vectors in place
#ifndef GEMMAUDIT_QUANTISED_LANES_H
#define GEMMAUDIT_QUANTISED_LANES_H

#include "quantised_words.h"

GA_INLINE lanes ramp(int first) {
  lanes x;
  for (int l = 0; l < LANES; l++) x[l] = (float)(first + l);
  return x;
}

// through_fp16 rounds to fp16; the code is too long to inline without an instruction for it.
#if defined(GA_STORE_FP16)
GA_INLINE
#else
static __attribute__((noinline))
#endif
lanes through_fp16(lanes x) {
  uint16_t h[LANES];
  store(GA_FP16, h, 0, x);
  return load(GA_FP16, h, 0);
}

// rounded rounds weights to the type of A. Pairs of bf16 are rounded by join.
GA_INLINE lanes rounded(ga_dtype type, lanes x) {
  if (GROUP == 2 || type == GA_FP32) return x;
  if (type == GA_BF16) {
    words u = (words)x;
    return (lanes)((u + ((u >> 16 & 1) + 0x7fff)) & (int32_t)0xffff0000);
  }
  return through_fp16(x);
}

GA_INLINE lanes convert(const ga_dtype type, const uint8_t *p, lanes scale, lanes base) {
  lanes low = rounded(type, GA_FUSED(floats_of(p), scale, base));
#if GROUP == 2
  return join(low, GA_FUSED(floats_of(p + LANES), scale, base));
#else
  return low;
#endif
}

// weight_table is a group's table for an activation type. With vectors of four the code is long, so it is a
// function.
#if LANES == 4
static __attribute__((noinline))
#else
GA_INLINE
#endif
table weight_table(ga_dtype type, float scale, float base) {
  lanes values[16 / LANES];
  for (int i = 0; i < 16 / LANES; i++) values[i] = rounded(type, GA_FUSED(ramp(i * LANES), all(scale), all(base)));
  return table_of(values);
}

// base_of is the weight of the stored code 0.
GA_INLINE lanes base_of(const ga_weights *w, const uint8_t *zeros, lanes scale) {
  return w->zeros ? -floats_of(zeros) * scale : all(w->bits == 4 ? -8 : 0) * scale;
}

// place is a position in multiplying and decoding a quad: rows of A, [unit][rows], and units of decoded
// columns, pitch bytes apart.
typedef struct {
  const char *a;
  char *kept;
  int64_t pitch;
} place;

// unit adds R rows × C columns w of a unit and stores w.
GA_INLINE void unit(const int R, const int C, const lanes w[GA_QUAD], place *p, lanes sum[ROWS][GA_QUAD]) {
  _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) *(lanes_anywhere *)(p->kept + c * VECTOR) = w[c];
  p->kept += p->pitch;
  _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) {
    lanes a = words_at(p->a, r);
    _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) sum[r][c] = step(sum[r][c], w[c], a);
  }
  p->a += R * VECTOR;
}

GA_INLINE void unit4(const int R, const int C, const table *t, const char *at, int j, place *p,
                     lanes sum[ROWS][GA_QUAD]) {
  lanes w[GA_QUAD];
  _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) w[c] = look_up(&t[c], load_codes(at + c * (BLOCK4 / 2)), j);
  unit(R, C, w, p, sum);
}

// columns_of adds R rows × C columns of a quad, starting at column `first`, for k from k0 to k1. It
// prefetches codes ahead bytes away, unless ahead is 0.
GA_INLINE void columns_of(const int R, const int C, const int bits, const ga_dtype type, const ga_gemm *g,
                          const char *quad, int first, int64_t k0, int64_t k1, int64_t ahead, place p,
                          lanes sum[ROWS][GA_QUAD]) {
  const ga_weights *w = &g->weights;
  const int bytes = bits == 8 ? BYTES8 : BYTES4;
  int64_t groups = g->k / w->group, of = k0 / w->group < groups ? k0 / w->group : groups - 1;
  const uint16_t *scales = (const uint16_t *)quad + of * GA_QUAD + first;
  const uint8_t *zeros = (const uint8_t *)quad + (groups * 2 + of) * GA_QUAD + first;
  const char *at = quad + ga_quad_header(w, g->k) + k0 * bits / 8 * GA_QUAD + first * bytes;
  for (int64_t k = k0; k < k1; scales += GA_QUAD, zeros += GA_QUAD) {
    // Padding beyond K belongs to the last group.
    int64_t end = ++of < groups && of * w->group < k1 ? of * w->group : k1;
    lanes scale = widened(w, scales), base = base_of(w, zeros, scale);
    if (ahead != 0) {
      __builtin_prefetch((const char *)scales + ahead);
      if (w->zeros) __builtin_prefetch(zeros + ahead);
    }
    if (bits == 8) {
      lanes s[GA_QUAD], b[GA_QUAD];
      _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) {
        s[c] = all(scale[c]);
        b[c] = all(base[c]);
      }
      for (; k < end; k += 32, at += BYTES8 * GA_QUAD) {
        if (ahead != 0)
          for (int l = 0; l < BYTES8 * C; l += 64) __builtin_prefetch(at + ahead + l);
        _Pragma("GCC unroll 8") for (int j = 0; j < 32 / UNIT; j++) {
          lanes x[GA_QUAD];
          _Pragma("GCC unroll 4") for (int c = 0; c < C; c++)
            x[c] = convert(type, (const uint8_t *)at + c * BYTES8 + j * UNIT, s[c], b[c]);
          unit(R, C, x, &p, sum);
        }
      }
      continue;
    }
    table t[GA_QUAD];
    _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) t[c] = weight_table(type, scale[c], base[c]);
    while (k < end) {
      int64_t from = k % BLOCK4, to = end - k < BLOCK4 - from ? from + end - k : BLOCK4;
      if (ahead != 0 && from == 0)
        for (int l = 0; l < BYTES4 * C; l += 64) __builtin_prefetch(at + ahead + l);
      if (to - from == BLOCK4) {
        _Pragma("GCC unroll 8") for (int j = 0; j < BLOCK4 / UNIT; j++) unit4(R, C, t, at, j, &p, sum);
      } else {
        for (int j = (int)from / UNIT; j < (int)to / UNIT; j++) unit4(R, C, t, at, j, &p, sum);
      }
      k += to - from;
      if (to == BLOCK4) at += BYTES4 * GA_QUAD;
    }
  }
}

GA_INLINE void multiply_rows(const int R, const int bits, const ga_dtype type, const ga_gemm *g,
                             const char *quad, int64_t k0, int64_t k1, int64_t ahead, const char *a, char *kept, char *sums,
                             int set) {
  const int C = COLUMNS(R);
  _Pragma("GCC unroll 2") for (int first = 0; first < GA_QUAD; first += C, sums += C * VECTOR) {
    lanes sum[ROWS][GA_QUAD];
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
      _Pragma("GCC unroll 4") for (int c = 0; c < C; c++) sum[r][c] = set ? (lanes){0} : words_at(sums, r * GA_QUAD + c);
    place p = {a, kept + first * VECTOR, GA_QUAD * VECTOR};
    columns_of(R, C, bits, type, g, quad, first, k0, k1, ahead, p, sum);
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
      _Pragma("GCC unroll 4") for (int c = 0; c < C; c++)
        *(lanes_anywhere *)(sums + (r * GA_QUAD + c) * VECTOR) = sum[r][c];
  }
}

#define GA_MULTIPLY_CASE(rows, bits, type) \
  case rows: multiply_rows(rows, bits, type, g, quad, k0, k1, ahead, a, kept, sums, set); break;
// multiply supports the row counts of a last tile: at least two for TILE 3, three for TILE 6.
#if TILE == 6
#define GA_MULTIPLY_KEPT(bits, type) GA_MULTIPLY_CASE(4, bits, type) GA_MULTIPLY_CASE(5, bits, type)
#else
#define GA_MULTIPLY_KEPT(bits, type) GA_MULTIPLY_CASE(2, bits, type)
#endif

#define GA_MULTIPLY(name, bits, type)                                                                               \
  static void name(const ga_gemm *g, int rows, const char *quad, int64_t k0, int64_t k1, int64_t ahead, const char *a, \
                   char *kept, char *sums, int set) {                                                               \
    switch (rows) {                                                                                                 \
      GA_MULTIPLY_CASE(3, bits, type)                                                                            \
      GA_MULTIPLY_KEPT(bits, type)                                                                                  \
    }                                                                                                               \
  }
GA_MULTIPLY(multiply_int4, 4, g->dtype)
GA_MULTIPLY(multiply_int8_bf16, 8, GA_BF16)
#if GROUP == 1
GA_MULTIPLY(multiply_int8_fp32, 8, GA_FP32)
GA_MULTIPLY(multiply_int8_fp16, 8, GA_FP16)
#endif

static void quantised_multiply(const ga_gemm *g, int rows, const char *quad, int64_t k0, int64_t k1, int64_t ahead,
                               const char *a, char *kept, char *sums, int set) {
  if (g->weights.bits == 4) multiply_int4(g, rows, quad, k0, k1, ahead, a, kept, sums, set);
#if GROUP == 1
  else if (g->dtype == GA_FP32) multiply_int8_fp32(g, rows, quad, k0, k1, ahead, a, kept, sums, set);
  else if (g->dtype == GA_FP16) multiply_int8_fp16(g, rows, quad, k0, k1, ahead, a, kept, sums, set);
#endif
  else multiply_int8_bf16(g, rows, quad, k0, k1, ahead, a, kept, sums, set);
}

#if GROUP == 2
// quantised_columns is for AMX and therefore bf16. It prefetches scales and codes of the next panel's quad.
static void quantised_columns(const ga_gemm *g, const char *quad, int64_t k0, int64_t k1, char *out, int64_t pitch) {
  lanes none[ROWS][GA_QUAD];
  place p = {NULL, out, pitch};
  int64_t ahead = ga_quantised_panel_bytes(g);
  if (g->weights.bits == 4) columns_of(0, GA_QUAD, 4, GA_BF16, g, quad, 0, k0, k1, ahead, p, none);
  else columns_of(0, GA_QUAD, 8, GA_BF16, g, quad, 0, k0, k1, ahead, p, none);
}
#endif

GA_INLINE void scales_across(const ga_weights *w, const char *quad, int64_t each, int64_t groups, int64_t group, float *scales, float *bases) {
  uint16_t halves_of[LANES];
  uint8_t zeros[LANES] = {0};
  for (int c = 0; c < LANES; c += GA_QUAD) {
    const char *of = quad + c / GA_QUAD * each;
    memcpy(halves_of + c, of + group * GA_QUAD * 2, GA_QUAD * 2);
    if (w->zeros) memcpy(zeros + c, of + groups * GA_QUAD * 2 + group * GA_QUAD, GA_QUAD);
  }
  lanes scale = widened(w, halves_of);
  store(GA_FP32, scales, 0, scale);
  store(GA_FP32, bases, 0, base_of(w, zeros, scale));
}

// The position of decode: codes of the first of LANES columns, and the distance between quads.
typedef struct {
  const char *codes;
  int64_t each;
} across;

GA_INLINE const char *column_at(across p, int c, int bytes) { return p.codes + c / GA_QUAD * p.each + c % GA_QUAD * bytes; }

// put_across writes words of LANES columns to every apart-th row of the panel.
GA_INLINE void put_across(lanes v[LANES], char *out, const int apart) {
  transpose(v);
  _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) *(lanes_anywhere *)(out + i * apart * GA_PANEL * 4) = v[i];
}

GA_INLINE void decode4(const int from, const int to, across p, const table *t, char *out) {
  _Pragma("GCC unroll 8") for (int j = from; j < to; j++) {
    lanes v[LANES];
    _Pragma("GCC unroll 16") for (int c = 0; c < LANES; c++) v[c] = look_up(&t[c], load_codes(column_at(p, c, BLOCK4 / 2)), j);
    int row = PAIRED ? (j - from) / 2 * 2 * LANES + j % 2 : (j - from) * LANES; // `from` is even if PAIRED
    put_across(v, out + row * GA_PANEL * 4, 1 + PAIRED);
  }
}

// decode_columns decodes LANES columns of a panel, starting at a quad: 32 k at a time, or a whole block in
// one group.
GA_INLINE void decode_columns(const int bits, const ga_dtype type, const ga_gemm *g, const char *quad, int64_t k0, int64_t words,
                              int64_t ahead, char *out) {
  const ga_weights *w = &g->weights;
  int64_t header = ga_quad_header(w, g->k), groups = g->k / w->group, step, end = k0 + words * GROUP;
  int64_t of = k0 / w->group < groups ? k0 / w->group : groups - 1, next = k0; // group, and start of the next
  int whole = w->group == g->k || w->group % BLOCK4 == 0;
  across p = {.each = ga_quad_bytes(w, g->k)};
  float scales[LANES], bases[LANES];
  table t[LANES];
  for (int64_t k = k0; k < end; k += step, out += step / GROUP * GA_PANEL * 4) {
    if (k == next) {
      scales_across(w, quad, p.each, groups, of, scales, bases);
      if (bits == 4)
        for (int c = 0; c < LANES; c++) t[c] = weight_table(type, scales[c], bases[c]);
      next = ++of < groups ? of * w->group : end; // padding belongs to the last group
    }
    step = 32;
    if (bits == 8) {
      p.codes = quad + header + k * GA_QUAD;
      for (int q = 0; q < LANES / GA_QUAD; q++)
        for (int l = 0; l < BYTES8 * GA_QUAD; l += 64) __builtin_prefetch(p.codes + q * p.each + ahead + l, 0, 2);
      for (int j = 0; j < 32 / UNIT; j++) {
        lanes v[LANES];
        _Pragma("GCC unroll 16") for (int c = 0; c < LANES; c++)
          v[c] = convert(type, (const uint8_t *)column_at(p, c, BYTES8) + j * UNIT, all(scales[c]), all(bases[c]));
        put_across(v, out + j * LANES * GA_PANEL * 4, 1);
      }
      continue;
    }
    p.codes = quad + header + k / BLOCK4 * (BYTES4 * GA_QUAD);
    if (k % BLOCK4 == 0)
      for (int q = 0; q < LANES / GA_QUAD; q++)
        for (int l = 0; l < BYTES4 * GA_QUAD; l += 64) __builtin_prefetch(p.codes + q * p.each + ahead + l, 0, 2);
    if (BLOCK4 > 32 && whole && k % BLOCK4 == 0 && k + BLOCK4 <= end) {
      decode4(0, BLOCK4 / UNIT, p, t, out);
      step = BLOCK4;
    } else {
      switch (k % BLOCK4 / 32) {
        case 0: decode4(0, 32 / UNIT, p, t, out); break;
        case 1: decode4(32 / UNIT, 64 / UNIT, p, t, out); break;
        case 2: decode4(64 / UNIT, 96 / UNIT, p, t, out); break;
        default: decode4(96 / UNIT, 128 / UNIT, p, t, out); break;
      }
    }
  }
}

static void quantised_decode(const ga_gemm *g, const char *panel, int64_t k0, int64_t words, int64_t ahead, void *out) {
  for (int c = 0; c < GA_PANEL; c += LANES) {
    const char *quad = panel + c / GA_QUAD * ga_quad_bytes(&g->weights, g->k);
    char *to = (char *)out + c * 4;
    if (g->weights.bits == 4) decode_columns(4, g->dtype, g, quad, k0, words, ahead, to);
#if GROUP == 1
    else if (g->dtype == GA_FP32) decode_columns(8, GA_FP32, g, quad, k0, words, ahead, to);
    else if (g->dtype == GA_FP16) decode_columns(8, GA_FP16, g, quad, k0, words, ahead, to);
#endif
    else decode_columns(8, GA_BF16, g, quad, k0, words, ahead, to);
  }
}

GA_INLINE void add_rows(const int R, int64_t units, const char *a, const char *columns, char *sums, int set) {
  lanes sum[TILE][GA_QUAD];
  _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
    _Pragma("GCC unroll 4") for (int c = 0; c < GA_QUAD; c++) sum[r][c] = set ? (lanes){0} : words_at(sums, r * GA_QUAD + c);
  for (int64_t u = 0; u < units; u++, a += R * VECTOR, columns += GA_QUAD * VECTOR) {
    lanes x[TILE];
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) x[r] = words_at(a, r);
    _Pragma("GCC unroll 4") for (int c = 0; c < GA_QUAD; c++) {
      lanes w = words_at(columns, c);
      _Pragma("GCC unroll 8") for (int r = 0; r < R; r++) sum[r][c] = step(sum[r][c], w, x[r]);
    }
  }
  _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
    _Pragma("GCC unroll 4") for (int c = 0; c < GA_QUAD; c++)
      *(lanes_anywhere *)(sums + (r * GA_QUAD + c) * VECTOR) = sum[r][c];
}

static void quantised_add(int rows, int64_t units, const char *a, const char *columns, char *sums, int set) {
  switch (rows) {
    case 1: add_rows(1, units, a, columns, sums, set); break;
    case 2: add_rows(2, units, a, columns, sums, set); break;
#if TILE == 6
    case 3: add_rows(3, units, a, columns, sums, set); break;
    case 4: add_rows(4, units, a, columns, sums, set); break;
    case 5: add_rows(5, units, a, columns, sums, set); break;
#endif
    default: add_rows(TILE, units, a, columns, sums, set); break;
  }
}

// loaded is a unit of a row of A from k `from`, zero beyond K.
GA_INLINE lanes loaded(const ga_dtype type, const void *a, int64_t from, int64_t k) {
#if GROUP == 1
  return from + UNIT <= k ? load(type, a, from) : from < k ? load_some(type, a, from, k - from) : (lanes){0};
#else
  (void)type;
  lanes x = {0};
  if (from < k) memcpy(&x, (const uint16_t *)a + from, (size_t)(k - from < UNIT ? k - from : UNIT) * 2);
  return x;
#endif
}

GA_INLINE void pack_row(const ga_dtype type, const ga_gemm *g, const void *a, int64_t kp, char *out, int64_t pitch) {
#if PAIRED
  if (g->weights.bits == 4) {
    for (int64_t i = 0; i < kp; i += 2 * UNIT, out += 2 * pitch) {
      lanes x = loaded(type, a, i, g->k), y = loaded(type, a, i + UNIT, g->k);
      store(GA_FP32, out, 0, even(x, y));
      store(GA_FP32, out + pitch, 0, odd(x, y));
    }
    return;
  }
#endif
  for (int64_t i = 0; i < kp; i += UNIT, out += pitch) *(lanes_anywhere *)out = loaded(type, a, i, g->k);
}

static void quantised_pack_a(const ga_gemm *g, const void *a, int64_t kp, void *out, int64_t pitch) {
#if GROUP == 1
  GA_OF_TYPES(g->dtype, pack_row, g, a, kp, out, pitch)
#else
  pack_row(GA_BF16, g, a, kp, out, pitch);
#endif
}

#endif
