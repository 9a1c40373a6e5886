// Code shared by both AVX-512 forms.
#ifndef GEMMAUDIT_QUANTISED_LANES_AVX512_AMD64_H
#define GEMMAUDIT_QUANTISED_LANES_AVX512_AMD64_H

#include <immintrin.h>

#define LANES 16
#define ROWS 5 // six rows of four columns leave no registers for tables
#define COLUMNS(rows) 4
#define FEW_COLUMNS(rows) ((rows) > 3 ? 2 : 4) // each needs registers for a sum and a total
#define TILE 6
#define GA_FUSED(a, b, c) (lanes)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define GA_QUARTER(x, i) (four)_mm512_extractf32x4_ps((__m512)(x), i)
#define GA_LOAD_FP16(p) (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define GA_STORE_FP16(p, x) \
  _mm256_storeu_si256((__m256i *)(p), _mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))

#include "lanes.h"

GA_INLINE lanes floats_of(const uint8_t *p) {
  return (lanes)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

// GA_INTEGERS loads 16 floats, or 16 bf16 twice.
#if GROUP == 2
#define GA_INTEGERS(p) _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(p)))
#else
#define GA_INTEGERS(p) _mm512_loadu_ps(p)
#endif

// transpose works within each 16 bytes, pairs first, then exchanges these.
GA_INLINE void transpose(lanes v[16]) {
  __m512 a[16], b[16];
  _Pragma("GCC unroll 8") for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps((__m512)v[i], (__m512)v[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps((__m512)v[i], (__m512)v[i + 1]);
  }
  _Pragma("GCC unroll 4") for (int i = 0; i < 16; i += 4)
    _Pragma("GCC unroll 2") for (int h = 0; h < 2; h++) {
      __m512d x = _mm512_castps_pd(a[i + h]), y = _mm512_castps_pd(a[i + 2 + h]);
      b[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
      b[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
    }
  // b[4g + r] holds rows r, 4 + r, 8 + r, 12 + r of columns 4g to 4g + 3.
  _Pragma("GCC unroll 4") for (int r = 0; r < 4; r++) {
    __m512 p = _mm512_shuffle_f32x4(b[r], b[4 + r], 0x44), q = _mm512_shuffle_f32x4(b[r], b[4 + r], 0xee);
    __m512 s = _mm512_shuffle_f32x4(b[8 + r], b[12 + r], 0x44), t = _mm512_shuffle_f32x4(b[8 + r], b[12 + r], 0xee);
    v[r] = (lanes)_mm512_shuffle_f32x4(p, s, 0x88);
    v[4 + r] = (lanes)_mm512_shuffle_f32x4(p, s, 0xdd);
    v[8 + r] = (lanes)_mm512_shuffle_f32x4(q, t, 0x88);
    v[12 + r] = (lanes)_mm512_shuffle_f32x4(q, t, 0xdd);
  }
}

#endif
