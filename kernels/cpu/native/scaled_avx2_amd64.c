#include "scaled.h"
#include "target.h"

GA_TARGET_BEGIN("avx2,fma,f16c")
#include <immintrin.h>

// fp8 shifted to the exponent of fp16 is too small by 2^8, subnormals included; NaN needs all bits of the exponent.
void ga_avx2_fp8_to_float(const uint8_t *codes, int64_t n, void *out) {
  const __m256i magnitudes = _mm256_set1_epi16(0x7f << 7), signs = _mm256_set1_epi16((short)0x8000), nan = _mm256_set1_epi16(0x7e00);
  const __m256 up = _mm256_set1_ps(256);
  float *to = out;
  for (int64_t i = 0; i < n; i += 16) {
    __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(codes + i)));
    __m256i magnitude = _mm256_and_si256(_mm256_slli_epi16(x, 7), magnitudes);
    __m256i h = _mm256_or_si256(magnitude, _mm256_and_si256(_mm256_slli_epi16(x, 8), signs));
    h = _mm256_or_si256(h, _mm256_and_si256(_mm256_cmpeq_epi16(magnitude, magnitudes), nan));
    _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(h)), up));
    _mm256_storeu_ps(to + i + 8, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)), up));
  }
}
GA_TARGET_END
