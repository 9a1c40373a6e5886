// Strips of 4-bit weights with AVX2: VPMADDUBSW multiplies bytes. Its sums of 16 bits hold the 32 k of a block:
// 8·2·15·128 is below 2^15.
#include "strips.h"
#include "target.h"

GA_TARGET_BEGIN("avx2,fma,f16c,sse,sse2")
#include <immintrin.h>

#define LANES 8
#define GA_FUSED(a, b, c) (lanes)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define GA_QUARTER(x, i) (four)_mm256_extractf128_ps((__m256)(x), (i) & 1)
#define GA_LOAD_FP16(p) (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define GA_STORE_FP16(p, x) _mm_storeu_si128((__m128i *)(p), _mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT))
#include "lanes.h"

#define ROWS 4
#define ROUNDED_ROWS 8

GA_INLINE words dot(words sum, words codes, words a) {
  return (words)_mm256_add_epi16((__m256i)sum, _mm256_maddubs_epi16((__m256i)codes, (__m256i)a));
}
GA_INLINE words total_of(words sum, int by) { return (words)_mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16((short)by)); }
GA_INLINE words repeated(const char *p) { return (words)_mm256_castps_si256(_mm256_broadcast_ss((const float *)(const void *)p)); }
GA_INLINE words multiplied(words x, words y) { return (words)_mm256_mullo_epi32((__m256i)x, (__m256i)y); }

GA_INLINE int32_t largest_word(words x) {
  __m128i y = _mm_max_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
  y = _mm_max_epi32(y, _mm_shuffle_epi32(y, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(y, _mm_shuffle_epi32(y, 0xb1)));
}
GA_INLINE int32_t sum_of_words(words x) {
  __m128i y = _mm_add_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
  y = _mm_add_epi32(y, _mm_shuffle_epi32(y, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(y, _mm_shuffle_epi32(y, 0xb1)));
}
GA_INLINE void put_bytes(char *p, const words x[4]) {
  __m256i low = _mm256_packs_epi32((__m256i)x[0], (__m256i)x[1]), high = _mm256_packs_epi32((__m256i)x[2], (__m256i)x[3]);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); // packing works within 16 bytes
  _mm256_storeu_si256((__m256i *)(void *)p, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
}

#include "strips_lanes.h"

const ga_form ga_avx2_strips = GA_STRIP_FORM("avx2 vpmaddubsw");
GA_TARGET_END
