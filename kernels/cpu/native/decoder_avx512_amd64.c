#include "decoder.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#include <immintrin.h>

#define LANES 16
#define GA_FUSED(a, b, c) (lanes)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#define GA_QUARTER(x, i) (four)_mm512_extractf32x4_ps((__m512)(x), i)
#define GA_LOW(a, b) (lanes)_mm512_unpacklo_ps((__m512)(a), (__m512)(b))
#define GA_HIGH(a, b) (lanes)_mm512_unpackhi_ps((__m512)(a), (__m512)(b))
#define GA_FRONT(a, b) (lanes)_mm512_shuffle_ps((__m512)(a), (__m512)(b), 0x44)
#define GA_BACK(a, b) (lanes)_mm512_shuffle_ps((__m512)(a), (__m512)(b), 0xee)
#define GA_LOAD_FP16(p) (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define GA_STORE_FP16(p, x) \
  _mm256_storeu_si256((__m256i *)(p), _mm512_cvtps_ph((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
// 24 sums, four vectors and a broadcast of 32 registers.
enum { TILE_ROWS = 6, TILE_VECTORS = 4, FEW_QUERIES = 4 };

#include "attention_lanes.h"
#include "decoder_lanes.h"

const ga_decoder ga_avx512_decoder = {embed, normalize, rotate, attend, gate, choose};
GA_TARGET_END
