// Code shared by strips with AVX-512, with and without VPDPBUSD.
#ifndef GEMMAUDIT_STRIPS_AVX512_AMD64_H
#define GEMMAUDIT_STRIPS_AVX512_AMD64_H

#include <immintrin.h>

#define LANES 16
#define GA_FUSED(a, b, c) (lanes)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define GA_QUARTER(x, i) (four)_mm512_extractf32x4_ps((__m512)(x), i)
#define GA_LOAD_FP16(p) (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define GA_STORE_FP16(p, x) \
  _mm256_storeu_si256((__m256i *)(p), _mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#include "lanes.h"

#define ROWS 4
#define ROUNDED_ROWS 8

GA_INLINE words repeated(const char *p) { return (words)_mm512_set1_epi32(*(const int32_t *)(const void *)p); }
GA_INLINE words multiplied(words x, words y) { return (words)_mm512_mullo_epi32((__m512i)x, (__m512i)y); }
GA_INLINE int32_t largest_word(words x) { return _mm512_reduce_max_epi32((__m512i)x); }
GA_INLINE int32_t sum_of_words(words x) { return _mm512_reduce_add_epi32((__m512i)x); }
GA_INLINE void put_bytes(char *p, const words x[2]) {
  _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8((__m512i)x[0]));
  _mm_storeu_si128((__m128i *)(void *)(p + 16), _mm512_cvtepi32_epi8((__m512i)x[1]));
}

#endif
