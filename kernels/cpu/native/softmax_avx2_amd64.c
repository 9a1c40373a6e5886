#include "softmax.h"
#include "target.h"

GA_TARGET_BEGIN("avx2,fma,f16c,sse,sse2")
#include <immintrin.h>

#define LANES 8
#define GA_FUSED(a, b, c) (lanes)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define GA_QUARTER(x, i) (four)_mm256_extractf128_ps((__m256)(x), (i) & 1)
#define GA_LOAD_FP16(p) (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define GA_STORE_FP16(p, x) _mm_storeu_si128((__m128i *)(p), _mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT))
#define GA_MAX(a, b) (lanes)_mm256_max_ps((__m256)(a), (__m256)(b))
#define GA_PERMUTE(v, indices) (lanes)_mm256_permutevar8x32_ps((__m256)(v), (__m256i)(indices))
#define GA_STREAM(p, v) _mm256_stream_ps(p, (__m256)(v))
#define GA_STREAM_HALVES(p, v) _mm_stream_si128((__m128i *)(void *)(p), (__m128i)(v))
#define GA_FENCE() _mm_sfence()
#define GA_FLUSH_BEGIN unsigned state = _mm_getcsr(); _mm_setcsr(state | 0x8040);
#define GA_FLUSH_END _mm_setcsr(state);

#include "softmax_lanes.h"

const ga_softmax_kernels ga_avx2_softmax = {softmax_block, softmax_reread, softmax_naive};
GA_TARGET_END
