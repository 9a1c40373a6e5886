// Paths for AVX2, FMA and F16C: fp32; fp16 and bf16 widened to fp32; int8 widened to pairs of int16 for
// VPMADDWD, whose sums do not saturate.
//
// The tile is 6 rows × 16 columns, half a panel: 12 accumulators, two vectors of B and one broadcast word of
// A use 15 of 16 registers. With packed B read directly, up to three rows compute the whole panel at once,
// which reads B once and doubles the accumulators.
#include "path.h"
#include "target.h"

GA_TARGET_BEGIN("avx2,fma,f16c")
#include "pack_a_amd64.h"

enum { ROWS = 6 };

#define GA_INLINE static inline __attribute__((always_inline))

#define GA_WORD___m256(p) _mm256_broadcast_ss((const float *)(p))
#define GA_WORD___m256i(p) _mm256_set1_epi32(*(const int32_t *)(p))

// GA_ROWS_AVX2 defines name, which multiplies R rows by W vectors of 8 columns starting at vector FIRST. B(b,
// u, v) is vector v of row u of the four rows at b, FOUR bytes in total.
#define GA_ROWS_AVX2(name, V, LOAD, STORE, ZERO, STEP, B, FOUR)                                            \
  GA_INLINE void name##_rows(const int R, const int W, const int FIRST, int64_t words, const char *a,      \
                             const char *b, char *acc, int set, const char *ahead, int64_t step) {         \
    V sum[ROWS][4];                                                                                        \
    acc += FIRST * 32;                                                                                     \
    _Pragma("GCC unroll 6") for (int r = 0; r < R; r++)                                                    \
      _Pragma("GCC unroll 4") for (int v = 0; v < W; v++)                                                  \
        sum[r][v] = set ? ZERO() : LOAD((const void *)(acc + r * 128 + v * 32));                           \
    for (int64_t w = 0; w < words; w += 4) {                                                               \
      _Pragma("GCC unroll 4") for (int u = 0; u < 4; u++) {                                                \
        _mm_prefetch(ahead + u * 64, _MM_HINT_T0);                                                         \
        if (W == 4 && FOUR == 512) _mm_prefetch(ahead + 256 + u * 64, _MM_HINT_T0);                        \
        if (W == 4) {                                                                                      \
          _Pragma("GCC unroll 4") for (int v = 0; v < W; v++) {                                            \
            V x = B(b, u, v);                                                                              \
            _Pragma("GCC unroll 6") for (int r = 0; r < R; r++)                                            \
              sum[r][v] = STEP(sum[r][v], GA_WORD_##V(a + r * 16 + u * 4), x);                             \
          }                                                                                                \
        } else {                                                                                           \
          V x0 = B(b, u, FIRST), x1 = B(b, u, FIRST + 1);                                                  \
          _Pragma("GCC unroll 6") for (int r = 0; r < R; r++) {                                            \
            V s = GA_WORD_##V(a + r * 16 + u * 4);                                                         \
            sum[r][0] = STEP(sum[r][0], s, x0);                                                            \
            sum[r][1] = STEP(sum[r][1], s, x1);                                                            \
          }                                                                                                \
        }                                                                                                  \
      }                                                                                                    \
      a += R * 16;                                                                                         \
      b += FOUR;                                                                                           \
      ahead += step;                                                                                       \
    }                                                                                                      \
    _Pragma("GCC unroll 6") for (int r = 0; r < R; r++)                                                    \
      _Pragma("GCC unroll 4") for (int v = 0; v < W; v++)                                                  \
        STORE((void *)(acc + r * 128 + v * 32), sum[r][v]);                                                \
  }

// GA_DIRECT_AVX2 defines name for whole panels, using name##_rows.
#define GA_DIRECT_AVX2(name)                                                                              \
  static void name(int rows, int64_t words, const void *a, const void *b, void *acc, int set,              \
                   const void *ahead, int64_t step) {                                                      \
    /* Each of two passes prefetches half of the lines. */                                                 \
    const char *rest = (const char *)ahead + words / 4 * (step / 2);                                       \
    switch (rows) {                                                                                        \
      case 1: name##_rows(1, 4, 0, words, a, b, acc, set, ahead, step); break;                             \
      case 2: name##_rows(2, 4, 0, words, a, b, acc, set, ahead, step); break;                             \
      case 3: name##_rows(3, 4, 0, words, a, b, acc, set, ahead, step); break;                             \
      case 4:                                                                                              \
        name##_rows(4, 2, 0, words, a, b, acc, set, ahead, step / 2);                                      \
        name##_rows(4, 2, 2, words, a, b, acc, set, rest, step / 2);                                       \
        break;                                                                                             \
      case 5:                                                                                              \
        name##_rows(5, 2, 0, words, a, b, acc, set, ahead, step / 2);                                      \
        name##_rows(5, 2, 2, words, a, b, acc, set, rest, step / 2);                                       \
        break;                                                                                             \
      default:                                                                                             \
        name##_rows(6, 2, 0, words, a, b, acc, set, ahead, step / 2);                                      \
        name##_rows(6, 2, 2, words, a, b, acc, set, rest, step / 2);                                       \
        break;                                                                                             \
    }                                                                                                      \
  }

// GA_TILE_AVX2 defines name for half a panel at b and acc.
#define GA_TILE_AVX2(name, rows_name)                                                                      \
  static void name(int rows, int64_t words, const void *a, const void *b, void *acc, int set,              \
                   const void *ahead, int64_t step) {                                                      \
    switch (rows) {                                                                                        \
      case 1: rows_name##_rows(1, 2, 0, words, a, b, acc, set, ahead, step); break;                        \
      case 2: rows_name##_rows(2, 2, 0, words, a, b, acc, set, ahead, step); break;                        \
      case 3: rows_name##_rows(3, 2, 0, words, a, b, acc, set, ahead, step); break;                        \
      case 4: rows_name##_rows(4, 2, 0, words, a, b, acc, set, ahead, step); break;                        \
      case 5: rows_name##_rows(5, 2, 0, words, a, b, acc, set, ahead, step); break;                        \
      default: rows_name##_rows(6, 2, 0, words, a, b, acc, set, ahead, step); break;                       \
    }                                                                                                      \
  }

#define GA_LOAD_INT(p) _mm256_load_si256(p)
#define GA_STORE_INT(p, x) _mm256_store_si256(p, x)
#define STEP_FP32(acc, a, b) _mm256_fmadd_ps(a, b, acc)
#define STEP_INT16(acc, a, b) _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))

// Rows of words, and rows of packed B widened in registers. With two adjacent k, the same vector gives the
// rows of an even and an odd word.
#define B_PS(b, u, v) _mm256_load_ps((const float *)((b) + (u) * 128 + (v) * 32))
#define B_SI(b, u, v) _mm256_load_si256((const __m256i *)((b) + (u) * 128 + (v) * 32))
#define B_FP16(b, u, v) _mm256_cvtph_ps(_mm_load_si128((const __m128i *)((b) + (u) * 64 + (v) * 16)))
#define B_PAIR(b, u, v) _mm256_load_si256((const __m256i *)((b) + (u) / 2 * 128 + (v) * 32))
#define B_BF16(b, u, v) _mm256_castsi256_ps(((u) % 2 == 0 ? low_bf16 : high_bf16)(B_PAIR(b, u, v)))
#define B_INT8(b, u, v) (((u) % 2 == 0 ? low_int8 : high_int8)(B_PAIR(b, u, v)))

GA_INLINE __m256i low_bf16(__m256i pair) { return _mm256_slli_epi32(pair, 16); }
GA_INLINE __m256i high_bf16(__m256i pair) { return _mm256_and_si256(pair, _mm256_set1_epi32((int)0xffff0000)); }

// Bytes 0 and 1, or 2 and 3, of each word as two int16.
GA_INLINE __m256i low_int8(__m256i quad) {
  __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(quad, 8), 8), odd = _mm256_srai_epi16(quad, 8);
  return _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa);
}
GA_INLINE __m256i high_int8(__m256i quad) {
  __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(quad, 8), 8), odd = _mm256_srai_epi16(quad, 8);
  return _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa);
}

GA_ROWS_AVX2(direct_fp32, __m256, _mm256_load_ps, _mm256_store_ps, _mm256_setzero_ps, STEP_FP32, B_PS, 512)
GA_ROWS_AVX2(direct_fp16, __m256, _mm256_load_ps, _mm256_store_ps, _mm256_setzero_ps, STEP_FP32, B_FP16, 256)
GA_ROWS_AVX2(direct_bf16, __m256, _mm256_load_ps, _mm256_store_ps, _mm256_setzero_ps, STEP_FP32, B_BF16, 256)
GA_ROWS_AVX2(direct_int8, __m256i, GA_LOAD_INT, GA_STORE_INT, _mm256_setzero_si256, STEP_INT16, B_INT8, 256)
GA_ROWS_AVX2(wide_int16, __m256i, GA_LOAD_INT, GA_STORE_INT, _mm256_setzero_si256, STEP_INT16, B_SI, 512)
GA_DIRECT_AVX2(direct_fp32)
GA_DIRECT_AVX2(direct_fp16)
GA_DIRECT_AVX2(direct_bf16)
GA_DIRECT_AVX2(direct_int8)
GA_TILE_AVX2(tile_fp32, direct_fp32)
GA_TILE_AVX2(tile_int16, wide_int16)

GA_PACK_A(pack_a_fp32, 4, 4, GA_LOAD_AS_IS)
GA_PACK_A(pack_a_fp16, 4, 2, GA_LOAD_FP16)
GA_PACK_A(pack_a_bf16, 4, 2, GA_LOAD_BF16)
GA_PACK_A(pack_a_int16, 8, 1, GA_LOAD_INT16)

// GA_WIDEN stores the rows of B, for repeated use by tiles.
#define GA_WIDEN(name, T, STORE, B)                                   \
  static void name(const void *b, int64_t words, void *out) {         \
    const char *src = b;                                              \
    char *dst = out;                                                  \
    for (int64_t w = 0; w < words; w += 2, src += 128, dst += 256)    \
      for (int v = 0; v < 4; v++) {                                   \
        STORE((T *)(dst + v * 32), B(src, 0, v));                     \
        STORE((T *)(dst + 128 + v * 32), B(src, 1, v));               \
      }                                                               \
  }
GA_WIDEN(widen_fp16, float, _mm256_store_ps, B_FP16)
GA_WIDEN(widen_bf16, float, _mm256_store_ps, B_BF16)
GA_WIDEN(widen_int8, __m256i, _mm256_store_si256, B_INT8)

static inline void copy_row(void *dst, const void *src, int64_t cols, int64_t size) {
  if (cols == GA_PANEL && size == 4) memcpy(dst, src, GA_PANEL * 4);
  else if (cols == GA_PANEL) memcpy(dst, src, GA_PANEL * 2);
  else memcpy(dst, src, (size_t)(cols * size));
}

static void store_words(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc) {
  (void)sums;
  for (int r = 0; r < rows; r++) copy_row((float *)c + r * ldc, (const float *)acc + r * GA_PANEL, cols, 4);
}

static void store_fp16(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc) {
  (void)sums;
  uint16_t row[GA_PANEL];
  for (int r = 0; r < rows; r++) {
    for (int v = 0; v < 4; v++)
      _mm_storeu_si128((__m128i *)(row + v * 8), _mm256_cvtps_ph(_mm256_load_ps((const float *)acc + r * GA_PANEL + v * 8), _MM_FROUND_TO_NEAREST_INT));
    copy_row((uint16_t *)c + r * ldc, row, cols, 2);
  }
}

// bf16_round leaves the rounded upper half in the lower half of each word.
static inline __m256i bf16_round(__m256 x) {
  __m256i u = _mm256_castps_si256(x), high = _mm256_srli_epi32(u, 16);
  __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  __m256i r = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
  __m256i nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(r, nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

static void store_bf16(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc) {
  (void)sums;
  uint16_t row[GA_PANEL];
  for (int r = 0; r < rows; r++) {
    const float *s = (const float *)acc + r * GA_PANEL;
    for (int v = 0; v < 4; v += 2) {
      __m256i both = _mm256_packus_epi32(bf16_round(_mm256_load_ps(s + v * 8)), bf16_round(_mm256_load_ps(s + v * 8 + 8)));
      _mm256_storeu_si256((__m256i *)(row + v * 8), _mm256_permute4x64_epi64(both, 0xd8));
    }
    copy_row((uint16_t *)c + r * ldc, row, cols, 2);
  }
}

const ga_path ga_avx2_paths[4] = {
    [GA_FP32] = {"avx2 6x16 fma", ROWS, 1, 2, pack_a_fp32, NULL, tile_fp32, direct_fp32, store_words},
    [GA_FP16] = {"avx2 6x16 fma, fp16 widened", ROWS, 1, 2, pack_a_fp16, widen_fp16, tile_fp32, direct_fp16, store_fp16},
    [GA_BF16] = {"avx2 6x16 fma, bf16 widened", ROWS, 1, 2, pack_a_bf16, widen_bf16, tile_fp32, direct_bf16, store_bf16},
    [GA_INT8] = {"avx2 6x16 vpmaddwd", ROWS, 2, 2, pack_a_int16, widen_int8, tile_int16, direct_int8, store_words},
};
GA_TARGET_END
