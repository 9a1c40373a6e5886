#include "scaled.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#include <immintrin.h>

// halves shifts 32 codes to the exponents of fp16: too small by 2^8, subnormals included; NaN needs all bits of the
// exponent.
static inline __attribute__((always_inline)) __m512i halves(const uint8_t *codes) {
  const __m512i magnitudes = _mm512_set1_epi16(0x7f << 7), signs = _mm512_set1_epi16((short)0x8000), nan = _mm512_set1_epi16(0x7e00);
  __m512i x = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)codes));
  __m512i magnitude = _mm512_and_si512(_mm512_slli_epi16(x, 7), magnitudes);
  __m512i h = _mm512_or_si512(magnitude, _mm512_and_si512(_mm512_slli_epi16(x, 8), signs));
  return _mm512_or_si512(h, _mm512_maskz_mov_epi16(_mm512_cmpeq_epi16_mask(magnitude, magnitudes), nan));
}

static inline __attribute__((always_inline)) __m512 low(__m512i h) {
  return _mm512_mul_ps(_mm512_cvtph_ps(_mm512_castsi512_si256(h)), _mm512_set1_ps(256));
}

static inline __attribute__((always_inline)) __m512 high(__m512i h) {
  return _mm512_mul_ps(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(h, 1)), _mm512_set1_ps(256));
}

void ga_avx512_fp8_to_float(const uint8_t *codes, int64_t n, void *out) {
  float *to = out;
  for (int64_t i = 0; i < n; i += 32) {
    __m512i h = halves(codes + i);
    _mm512_storeu_ps(to + i, low(h));
    _mm512_storeu_ps(to + i + 16, high(h));
  }
}

// fp8 is exact in bf16.
void ga_avx512_fp8_to_bf16(const uint8_t *codes, int64_t n, void *out) {
  uint16_t *to = out;
  for (int64_t i = 0; i < n; i += 32) {
    __m512i h = halves(codes + i);
    __m256i a = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(low(h)), 16));
    __m256i b = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(high(h)), 16));
    _mm512_storeu_si512(to + i, _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1));
  }
}
GA_TARGET_END
