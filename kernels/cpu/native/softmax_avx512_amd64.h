// The macros of softmax_lanes.h for AVX-512 F, BW, DQ and VL. The includer may enable more.
#include <immintrin.h>

#define LANES 16
#define GA_FUSED(a, b, c) (lanes)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define GA_QUARTER(x, i) (four)_mm512_extractf32x4_ps((__m512)(x), i)
#define GA_LOAD_FP16(p) (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define GA_LOAD_BF16(p) (lanes)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p))), 16)
#define GA_STORE_FP16(p, x) \
  _mm256_storeu_si256((__m256i *)(p), _mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define GA_MAX(a, b) (lanes)_mm512_max_ps((__m512)(a), (__m512)(b))
#define GA_REST(x) (lanes)_mm512_reduce_ps((__m512)(x), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
#define GA_POWER(p, x) (lanes)_mm512_scalef_ps((__m512)(p), (__m512)(x))
#define GA_TOP_OF_HALVES(type, x, n) top_of_halves(type, x, n)
#define GA_PERMUTE(v, indices) (lanes)_mm512_permutexvar_ps((__m512i)(indices), (__m512)(v))
#define GA_STREAM(p, v) _mm512_stream_ps(p, (__m512)(v))
#define GA_STREAM_HALVES(p, v) _mm256_stream_si256((__m256i *)(void *)(p), (__m256i)(v))
#define GA_FENCE() _mm_sfence()
#define GA_FLUSH_BEGIN unsigned state = _mm_getcsr(); _mm_setcsr(state | 0x8040);
#define GA_FLUSH_END _mm_setcsr(state);
#define GA_LOAD_PART(type, p, n) load_masked(type, p, n)
#define GA_STORE_PART(type, p, n, x) store_masked(type, p, n, x)

#include "lanes.h"

GA_INLINE lanes load_masked(const ga_dtype type, const char *p, int64_t n) {
  __mmask16 some = (__mmask16)((1u << n) - 1);
  const __m512 low = _mm512_set1_ps(-INFINITY);
  if (type == GA_FP32) return (lanes)_mm512_mask_loadu_ps(low, some, p);
  __m256i h = _mm256_maskz_loadu_epi16(some, p);
  if (type == GA_FP16) return (lanes)_mm512_mask_cvtph_ps(low, some, h);
  return (lanes)_mm512_mask_mov_ps(low, some, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

#if !defined(GA_HALVES_OF_BF16)
#define GA_HALVES_OF_BF16(x) halves_of_bf16(x)
// halves_of_bf16 rounds to nearest even; the low 16 bits of a NaN are zero.
GA_INLINE halves halves_of_bf16(lanes x) {
  const __m512i u = (__m512i)x, odd = _mm512_and_epi32(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  return (halves)_mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16));
}
#endif

static inline __attribute__((always_inline)) halves to_halves(const ga_dtype type, lanes x);

GA_INLINE void store_masked(const ga_dtype type, char *p, int64_t n, lanes x) {
  __mmask16 some = (__mmask16)((1u << n) - 1);
  if (type == GA_FP32) _mm512_mask_storeu_ps(p, some, (__m512)x);
  else _mm256_mask_storeu_epi16(p, some, (__m256i)to_halves(type, x));
}

// in_order maps floating-point bits to 16-bit integers in the same order, and back, by flipping the magnitude
// of negative ones.
GA_INLINE __m512i in_order(__m512i h) { return _mm512_ternarylogic_epi32(h, _mm512_srai_epi16(h, 15), _mm512_set1_epi16(0x7fff), 0x78); }

GA_INLINE float top_of_halves(const ga_dtype type, const char *x, int64_t n) {
  enum { WORDS = 32, AT_ONCE = 4 };
  const __m512i lowest = _mm512_set1_epi16((short)(type == GA_FP16 ? 0xfc00 : 0xff80));
  __m512i top[AT_ONCE];
  for (int t = 0; t < AT_ONCE; t++) top[t] = in_order(lowest);
  int64_t i = 0;
  for (; i + AT_ONCE * WORDS <= n; i += AT_ONCE * WORDS)
    _Pragma("GCC unroll 4") for (int t = 0; t < AT_ONCE; t++)
      top[t] = _mm512_max_epi16(top[t], in_order(_mm512_loadu_si512(x + 2 * (i + t * WORDS))));
  for (; i < n; i += WORDS) {
    __mmask32 some = n - i >= WORDS ? ~(__mmask32)0 : (__mmask32)((1ull << (n - i)) - 1);
    top[0] = _mm512_max_epi16(top[0], in_order(_mm512_mask_loadu_epi16(lowest, some, x + 2 * i)));
  }
  const __m512i most = _mm512_max_epi16(_mm512_max_epi16(top[0], top[1]), _mm512_max_epi16(top[2], top[3]));
  const __m256i half = _mm256_max_epi16(_mm512_castsi512_si256(most), _mm512_extracti64x4_epi64(most, 1));
  const __m128i quarter = _mm_max_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  // VPHMINPOSUW finds minima, so the maximum is complemented.
  int16_t word = (int16_t)(_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(0x7fff)))) ^ 0x7fff);
  const uint16_t h = (uint16_t)(word ^ ((word >> 15) & 0x7fff));
  return type == GA_FP16 ? ga_fp16_to_float(h) : ga_bf16_to_float(h);
}
