// Packing and conversion of A for the x86 paths, in granules of 16 bytes. Requires SSE4.1 and F16C.
#ifndef GEMMAUDIT_PACK_A_AMD64_H
#define GEMMAUDIT_PACK_A_AMD64_H

#include <immintrin.h>
#include <string.h>

// GA_PACK_A defines name, which reads granules of `elements` elements of `size` bytes with load(pointer).
#define GA_PACK_A(name, elements, size, load)                                                          \
  static void name(const void *a, int64_t lda, int rows, int64_t k, int64_t words, void *out) {        \
    int64_t whole = k / (elements), rest = k % (elements);                                             \
    for (int r = 0; r < rows; r++) {                                                                   \
      const char *src = (const char *)a + r * lda * (size);                                            \
      char *dst = (char *)out + r * 16;                                                                \
      for (int64_t i = 0; i < whole; i++, src += (elements) * (size), dst += rows * 16)                \
        _mm_store_si128((__m128i *)dst, load(src));                                                    \
      if (rest > 0) {                                                                                  \
        char edge[16] = {0};                                                                           \
        memcpy(edge, src, (size_t)(rest * (size)));                                                    \
        _mm_store_si128((__m128i *)dst, load(edge));                                                   \
        dst += rows * 16;                                                                              \
      }                                                                                                \
      for (int64_t i = whole + (rest > 0); i < words / 4; i++, dst += rows * 16)                       \
        _mm_store_si128((__m128i *)dst, _mm_setzero_si128());                                          \
    }                                                                                                  \
  }

#define GA_LOAD_AS_IS(p) _mm_loadu_si128((const __m128i *)(p))
#define GA_LOAD_FP16(p) _mm_castps_si128(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(p))))
#define GA_LOAD_BF16(p) _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)(p))), 16)
#define GA_LOAD_INT16(p) _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)(p)))
// Adds 128 to make A unsigned; the column sums correct for it.
#define GA_LOAD_UINT8(p) _mm_xor_si128(_mm_loadu_si128((const __m128i *)(p)), _mm_set1_epi8((char)0x80))

#endif
