// Paths for AVX-512 F, BW, DQ and VL: fp32; fp16 and bf16 widened to fp32; int8 widened to pairs of int16 for
// VPMADDWD, whose sums do not saturate.
#include "path.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#include "pack_a_amd64.h"
#include "tile_avx512_amd64.h"

#define STEP_FP32(acc, a, b) _mm512_fmadd_ps(a, b, acc)
#define STEP_INT16(acc, a, b) _mm512_add_epi32(acc, _mm512_madd_epi16(a, b))

// Rows of packed B widened in registers. With two adjacent k, the same vector gives the rows of an even and
// an odd word.
#define B_FP16(b, u, h) _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)((b) + (u) * 64 + (h) * 32)))
#define B_BF16(b, u, h) \
  _mm512_castsi512_ps(((u) % 2 == 0 ? low_bf16 : high_bf16)(_mm512_load_si512((b) + (u) / 2 * 128 + (h) * 64)))
#define B_INT8(b, u, h) (((u) % 2 == 0 ? low_int8 : high_int8)(_mm512_load_si512((b) + (u) / 2 * 128 + (h) * 64)))

GA_INLINE __m512i low_bf16(__m512i pair) { return _mm512_slli_epi32(pair, 16); }
GA_INLINE __m512i high_bf16(__m512i pair) { return _mm512_and_si512(pair, _mm512_set1_epi32((int)0xffff0000)); }

// Bytes 0 and 1, or 2 and 3, of each word as two int16.
GA_INLINE __m512i low_int8(__m512i quad) {
  __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(quad, 8), 8), odd = _mm512_srai_epi16(quad, 8);
  return _mm512_mask_blend_epi16(0xaaaaaaaa, even, _mm512_slli_epi32(odd, 16));
}
GA_INLINE __m512i high_int8(__m512i quad) {
  __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(quad, 8), 8), odd = _mm512_srai_epi16(quad, 8);
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(even, 16), odd);
}

GA_TILE_AVX512(tile_fp32, __m512, _mm512_load_ps, _mm512_store_ps, _mm512_setzero_ps, _mm512_add_ps, STEP_FP32, GA_B_PS, 512)
GA_TILE_AVX512(direct_fp16, __m512, _mm512_load_ps, _mm512_store_ps, _mm512_setzero_ps, _mm512_add_ps, STEP_FP32, B_FP16, 256)
GA_TILE_AVX512(direct_bf16, __m512, _mm512_load_ps, _mm512_store_ps, _mm512_setzero_ps, _mm512_add_ps, STEP_FP32, B_BF16, 256)
// int16 products need an extra register, so tiles have 12 rows.
GA_TILE_AVX512(tile_int16, __m512i, _mm512_load_si512, _mm512_store_si512, _mm512_setzero_si512, _mm512_add_epi32, STEP_INT16, GA_B_SI, 512)
GA_TILE_AVX512(direct_int8, __m512i, _mm512_load_si512, _mm512_store_si512, _mm512_setzero_si512, _mm512_add_epi32, STEP_INT16, B_INT8, 256)

GA_PACK_A(pack_a_fp32, 4, 4, GA_LOAD_AS_IS)
GA_PACK_A(pack_a_fp16, 4, 2, GA_LOAD_FP16)
GA_PACK_A(pack_a_bf16, 4, 2, GA_LOAD_BF16)
GA_PACK_A(pack_a_int16, 8, 1, GA_LOAD_INT16)

// GA_WIDEN stores the rows of B, for repeated use by tiles.
#define GA_WIDEN(name, STORE, B)                                 \
  static void name(const void *b, int64_t words, void *out) {    \
    const char *src = b;                                         \
    char *dst = out;                                             \
    for (int64_t w = 0; w < words; w += 2, src += 128, dst += 256) { \
      STORE(dst, B(src, 0, 0));                                  \
      STORE(dst + 64, B(src, 0, 1));                             \
      STORE(dst + 128, B(src, 1, 0));                            \
      STORE(dst + 192, B(src, 1, 1));                            \
    }                                                            \
  }
GA_WIDEN(widen_fp16, _mm512_store_ps, B_FP16)
GA_WIDEN(widen_bf16, _mm512_store_ps, B_BF16)
GA_WIDEN(widen_int8, _mm512_store_si512, B_INT8)

static void store_fp32(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc) {
  (void)sums;
  __mmask32 mask = (__mmask32)((1ull << cols) - 1);
  for (int r = 0; r < rows; r++) {
    const float *s = (const float *)acc + r * GA_PANEL;
    float *out = (float *)c + r * ldc;
    _mm512_mask_storeu_ps(out, (__mmask16)mask, _mm512_load_ps(s));
    _mm512_mask_storeu_ps(out + 16, (__mmask16)(mask >> 16), _mm512_load_ps(s + 16));
  }
}

static void store_fp16(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc) {
  (void)sums;
  __mmask32 mask = (__mmask32)((1ull << cols) - 1);
  enum { nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
  for (int r = 0; r < rows; r++) {
    const float *s = (const float *)acc + r * GA_PANEL;
    __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtps_ph(_mm512_load_ps(s), nearest)),
                                      _mm512_cvtps_ph(_mm512_load_ps(s + 16), nearest), 1);
    _mm512_mask_storeu_epi16((uint16_t *)c + r * ldc, mask, both);
  }
}

// int16 pairs need no correction by column sums.
static void store_int16(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc) {
  (void)sums;
  store_int32(acc, rows, cols, NULL, c, ldc);
}

const ga_path ga_avx512_paths[4] = {
    [GA_FP32] = {"avx512 14x32 fma", 14, 1, 1, pack_a_fp32, NULL, tile_fp32, tile_fp32, store_fp32},
    [GA_FP16] = {"avx512 14x32 fma, fp16 widened", 14, 1, 1, pack_a_fp16, widen_fp16, tile_fp32, direct_fp16, store_fp16},
    [GA_BF16] = {"avx512 14x32 fma, bf16 widened", 14, 1, 1, pack_a_bf16, widen_bf16, tile_fp32, direct_bf16, store_bf16},
    [GA_INT8] = {"avx512 12x32 vpmaddwd", 12, 2, 1, pack_a_int16, widen_int8, tile_int16, direct_int8, store_int16},
};
GA_TARGET_END
