#include "epilogue.h"
#include "target.h"

GA_TARGET_BEGIN("avx2,fma,f16c,sse,sse2")
#include <immintrin.h>

#define LANES 8
#define GA_FUSED(a, b, c) (lanes)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define GA_QUARTER(x, i) (four)_mm256_extractf128_ps((__m256)(x), (i) & 1)
#define GA_LOAD_FP16(p) (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define GA_STORE_FP16(p, x) _mm_storeu_si128((__m128i *)(p), _mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT))

#include "epilogue_lanes.h"

void ga_avx2_epilogue(ga_epilogue *e) { e->apply = apply, e->pass = pass; }
GA_TARGET_END
