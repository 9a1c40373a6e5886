// The AVX-512 register tile: up to 14 rows × 32 columns. 28 accumulators, two vectors of B and one broadcast
// word of A use 31 of 32 registers. 16 loads feed 28 multiply-adds, so neither load ports nor latency limit
// the rate. Tiles of few rows keep several sums per output, added at the end: two to six accumulators would
// wait for the latency of additions.
#ifndef GEMMAUDIT_TILE_AVX512_AMD64_H
#define GEMMAUDIT_TILE_AVX512_AMD64_H

#include <immintrin.h>

#define GA_INLINE static inline __attribute__((always_inline))

// GA_TILE_AVX512 defines name. V is the accumulator's vector type, STEP(acc, a, b) a multiply-add of vectors
// of words, PLUS an addition of accumulators. B(b, u, h) is half h of row u of the four rows at b, FOUR bytes
// in total.
#define GA_TILE_AVX512(name, V, LOAD, STORE, ZERO, PLUS, STEP, B, FOUR)                                      \
  GA_INLINE void name##_rows(const int R, const int P, int64_t words, const char *a, const char *b,          \
                             char *acc, int set, const char *ahead, int64_t step) {                          \
    V sum[4][GA_MAX_ROWS][2];                                                                                \
    _Pragma("GCC unroll 4") for (int p = 0; p < P; p++)                                                      \
      _Pragma("GCC unroll 14") for (int r = 0; r < R; r++) {                                                 \
        sum[p][r][0] = p > 0 || set ? ZERO() : LOAD(acc + r * 128);                                          \
        sum[p][r][1] = p > 0 || set ? ZERO() : LOAD(acc + r * 128 + 64);                                     \
      }                                                                                                      \
    for (int64_t w = 0; w < words; w += 4) {                                                                 \
      _Pragma("GCC unroll 4") for (int u = 0; u < 4; u++) {                                                  \
        V b0 = B(b, u, 0), b1 = B(b, u, 1);                                                                  \
        _mm_prefetch(ahead + u * 64, _MM_HINT_T0);                                                           \
        if (FOUR == 512) _mm_prefetch(ahead + 256 + u * 64, _MM_HINT_T0);                                    \
        _Pragma("GCC unroll 14") for (int r = 0; r < R; r++) {                                               \
          V s = GA_WORD_##V(a + r * 16 + u * 4);                                                             \
          sum[u % P][r][0] = STEP(sum[u % P][r][0], s, b0);                                                  \
          sum[u % P][r][1] = STEP(sum[u % P][r][1], s, b1);                                                  \
        }                                                                                                    \
      }                                                                                                      \
      a += R * 16;                                                                                           \
      b += FOUR;                                                                                             \
      ahead += step;                                                                                         \
    }                                                                                                        \
    _Pragma("GCC unroll 14") for (int r = 0; r < R; r++)                                                     \
      _Pragma("GCC unroll 2") for (int h = 0; h < 2; h++) {                                                  \
        V s = sum[0][r][h];                                                                                  \
        if (P == 2) s = PLUS(s, sum[1][r][h]);                                                               \
        if (P == 4) s = PLUS(PLUS(s, sum[1][r][h]), PLUS(sum[2][r][h], sum[3][r][h]));                       \
        STORE(acc + r * 128 + h * 64, s);                                                                    \
      }                                                                                                      \
  }                                                                                                          \
  static void name(int rows, int64_t words, const void *a, const void *b, void *acc, int set,                \
                   const void *ahead, int64_t step) {                                                        \
    switch (rows) {                                                                                          \
      case 1: name##_rows(1, 4, words, a, b, acc, set, ahead, step); break;                                  \
      case 2: name##_rows(2, 4, words, a, b, acc, set, ahead, step); break;                                  \
      case 3: name##_rows(3, 4, words, a, b, acc, set, ahead, step); break;                                  \
      case 4: name##_rows(4, 2, words, a, b, acc, set, ahead, step); break;                                  \
      case 5: name##_rows(5, 2, words, a, b, acc, set, ahead, step); break;                                  \
      case 6: name##_rows(6, 2, words, a, b, acc, set, ahead, step); break;                                  \
      case 7: name##_rows(7, 1, words, a, b, acc, set, ahead, step); break;                                  \
      case 8: name##_rows(8, 1, words, a, b, acc, set, ahead, step); break;                                  \
      case 9: name##_rows(9, 1, words, a, b, acc, set, ahead, step); break;                                  \
      case 10: name##_rows(10, 1, words, a, b, acc, set, ahead, step); break;                                \
      case 11: name##_rows(11, 1, words, a, b, acc, set, ahead, step); break;                                \
      case 12: name##_rows(12, 1, words, a, b, acc, set, ahead, step); break;                                \
      case 13: name##_rows(13, 1, words, a, b, acc, set, ahead, step); break;                                \
      default: name##_rows(14, 1, words, a, b, acc, set, ahead, step); break;                                \
    }                                                                                                        \
  }

#define GA_B_PS(b, u, h) _mm512_load_ps((b) + (u) * 128 + (h) * 64)
#define GA_B_SI(b, u, h) _mm512_load_si512((b) + (u) * 128 + (h) * 64)

#define GA_WORD___m512(p) _mm512_set1_ps(*(const float *)(p))
#define GA_WORD___m512i(p) _mm512_set1_epi32(*(const int32_t *)(p))

GA_INLINE __m256i ga_bf16_round(__m512 x) {
  __m512i u = _mm512_castps_si512(x);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  __m512i r = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd), 16);
  __m512i nan = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan));
}

GA_INLINE __m512i ga_bf16_row(const float *s) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(ga_bf16_round(_mm512_load_ps(s))), ga_bf16_round(_mm512_load_ps(s + 16)), 1);
}

static __attribute__((unused)) void store_bf16(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc) {
  (void)sums;
  __mmask32 mask = (__mmask32)((1ull << cols) - 1);
  for (int r = 0; r < rows; r++)
    _mm512_mask_storeu_epi16((uint16_t *)c + r * ldc, mask, ga_bf16_row((const float *)acc + r * GA_PANEL));
}

static __attribute__((unused)) void stream_bf16(const void *acc, int rows, void *c, int64_t ldc) {
  for (int r = 0; r < rows; r++)
    _mm512_stream_si512((__m512i *)((uint16_t *)c + r * ldc), ga_bf16_row((const float *)acc + r * GA_PANEL));
}

static __attribute__((unused)) void stream_int32(const void *acc, int rows, void *c, int64_t ldc) {
  for (int r = 0; r < rows; r++)
    for (int h = 0; h < GA_PANEL; h += 16)
      _mm512_stream_si512((__m512i *)((int32_t *)c + r * ldc + h), _mm512_load_si512((const int32_t *)acc + r * GA_PANEL + h));
}

static __attribute__((unused)) void store_int32(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc) {
  __mmask32 mask = (__mmask32)((1ull << cols) - 1);
  __m512i less0 = _mm512_setzero_si512(), less1 = less0;
  if (sums != NULL) {
    less0 = _mm512_slli_epi32(_mm512_loadu_si512(sums), 7);
    less1 = _mm512_slli_epi32(_mm512_loadu_si512(sums + 16), 7);
  }
  for (int r = 0; r < rows; r++) {
    const int32_t *s = (const int32_t *)acc + r * GA_PANEL;
    int32_t *out = (int32_t *)c + r * ldc;
    _mm512_mask_storeu_epi32(out, (__mmask16)mask, _mm512_sub_epi32(_mm512_load_si512(s), less0));
    _mm512_mask_storeu_epi32(out + 16, (__mmask16)(mask >> 16), _mm512_sub_epi32(_mm512_load_si512(s + 16), less1));
  }
}

#endif
