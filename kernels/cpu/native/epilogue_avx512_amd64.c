#include "epilogue.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,sse,sse2")
#include <immintrin.h>

#define LANES 16
#define GA_FUSED(a, b, c) (lanes)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define GA_QUARTER(x, i) (four)_mm512_extractf32x4_ps((__m512)(x), i)
#define GA_LOAD_FP16(p) (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define GA_STORE_FP16(p, x) _mm256_storeu_si256((__m256i *)(p), _mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT))

#include "epilogue_lanes.h"

void ga_avx512_epilogue(ga_epilogue *e) { e->apply = apply, e->pass = pass; }
GA_TARGET_END
