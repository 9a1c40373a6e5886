// Softmax with AVX-512 F, BW, DQ and VL.
#include "softmax.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,sse,sse2")
#include <immintrin.h>

#define LANES 16
#define GA_FUSED(a, b, c) (lanes)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define GA_QUARTER(x, i) (four)_mm512_extractf32x4_ps((__m512)(x), i)
#define GA_LOAD_FP16(p) (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define GA_STORE_FP16(p, x) \
  _mm256_storeu_si256((__m256i *)(p), _mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define GA_MAX(a, b) (lanes)_mm512_max_ps((__m512)(a), (__m512)(b))
#define GA_ROUND(x) (lanes)_mm512_roundscale_ps((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define GA_POWER(p, n) (lanes)_mm512_scalef_ps((__m512)(p), (__m512)(n))
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

static inline __attribute__((always_inline)) halves to_halves(const ga_dtype type, lanes x);

GA_INLINE void store_masked(const ga_dtype type, char *p, int64_t n, lanes x) {
  __mmask16 some = (__mmask16)((1u << n) - 1);
  if (type == GA_FP32) _mm512_mask_storeu_ps(p, some, (__m512)x);
  else _mm256_mask_storeu_epi16(p, some, (__m256i)to_halves(type, x));
}

#include "softmax_lanes.h"

const ga_softmax_kernels ga_avx512_softmax = {softmax_block, softmax_reread, softmax_naive};
GA_TARGET_END
