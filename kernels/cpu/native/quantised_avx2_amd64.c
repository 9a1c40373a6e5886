// Quantized weights with AVX2, FMA and F16C. A table is two vectors of eight weights; both are looked up, and
// the highest bit of a code selects.
#include "quantised.h"
#include "target.h"

GA_TARGET_BEGIN("avx2,fma,f16c,sse,sse2")
#include <immintrin.h>

#define GROUP 1
#define TERMS 1
#define PAIRED 0
#define LANES 8
#define ROWS 4
#define COLUMNS(rows) 2
#define FEW_COLUMNS(rows) 2
#define TILE 3
#define GA_FUSED(a, b, c) (lanes)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define GA_QUARTER(x, i) (four)_mm256_extractf128_ps((__m256)(x), (i) & 1)
#define GA_LOAD_FP16(p) (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define GA_STORE_FP16(p, x) _mm_storeu_si128((__m128i *)(p), _mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT))

#include "lanes.h"

typedef uint32_t codes __attribute__((vector_size(32)));
typedef codes codes_anywhere __attribute__((aligned(1), may_alias));
typedef struct { lanes low, high; } table;

GA_INLINE codes load_codes(const char *p) { return *(const codes_anywhere *)p; }
GA_INLINE table table_of(const lanes *values) { return (table){values[0], values[1]}; }

GA_INLINE table integer_table(const float *p) {
  return (table){*(const lanes_anywhere *)p, *(const lanes_anywhere *)(p + 8)};
}

GA_INLINE lanes look_up(const table *t, codes x, int j) {
  __m256i index = (__m256i)(x >> (4 * j));
  return (lanes)_mm256_blendv_ps(_mm256_permutevar8x32_ps((__m256)t->low, index), _mm256_permutevar8x32_ps((__m256)t->high, index),
                                 (__m256)(x << (28 - 4 * j)));
}

GA_INLINE lanes floats_of(const uint8_t *p) {
  return (lanes)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

GA_INLINE lanes step(lanes sum, lanes w, lanes a) { return GA_FUSED(w, a, sum); }

GA_INLINE void transpose(lanes v[8]) {
  __m256 a[8], b[8];
  _Pragma("GCC unroll 4") for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_ps((__m256)v[i], (__m256)v[i + 1]);
    a[i + 1] = _mm256_unpackhi_ps((__m256)v[i], (__m256)v[i + 1]);
  }
  _Pragma("GCC unroll 2") for (int i = 0; i < 8; i += 4)
    _Pragma("GCC unroll 2") for (int h = 0; h < 2; h++) {
      __m256d x = _mm256_castps_pd(a[i + h]), y = _mm256_castps_pd(a[i + 2 + h]);
      b[i + 2 * h] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, y));
      b[i + 2 * h + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, y));
    }
  _Pragma("GCC unroll 4") for (int r = 0; r < 4; r++) {
    v[r] = (lanes)_mm256_permute2f128_ps(b[r], b[4 + r], 0x20);
    v[4 + r] = (lanes)_mm256_permute2f128_ps(b[r], b[4 + r], 0x31);
  }
}

#include "quantised_few.h"
#include "quantised_lanes.h"

const ga_form ga_avx2_form = {"avx2 vpermps", LANES, GROUP, 4, ROWS, TILE, quantised_pack_a, quantised_multiply, NULL,
                            quantised_add, quantised_total, quantised_decode};
const ga_few ga_avx2_few = {"avx2 vpermps", 4, LANES, quantised_pack_a, few_multiply, quantised_total};
GA_TARGET_END
