#include "decoder.h"
#include "target.h"

GA_TARGET_BEGIN("avx2,fma,f16c")
#include <immintrin.h>

#define LANES 8
#define GA_FUSED(a, b, c) (lanes)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#define GA_QUARTER(x, i) (four)_mm256_extractf128_ps((__m256)(x), (i) & 1)
#define GA_LOW(a, b) (lanes)_mm256_unpacklo_ps((__m256)(a), (__m256)(b))
#define GA_HIGH(a, b) (lanes)_mm256_unpackhi_ps((__m256)(a), (__m256)(b))
#define GA_FRONT(a, b) (lanes)_mm256_shuffle_ps((__m256)(a), (__m256)(b), 0x44)
#define GA_BACK(a, b) (lanes)_mm256_shuffle_ps((__m256)(a), (__m256)(b), 0xee)
#define GA_LOAD_FP16(p) (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define GA_STORE_FP16(p, x) _mm_storeu_si128((__m128i *)(p), _mm256_cvtps_ph((__m256)(x), _MM_FROUND_TO_NEAREST_INT))
// 12 sums, two vectors and a broadcast of 16 registers.
enum { TILE_ROWS = 6, TILE_VECTORS = 2, FEW_QUERIES = 2 };

#include "attention_lanes.h"
#include "decoder_lanes.h"

const ga_decoder ga_avx2_decoder = {embed, normalize, rotate, attend, gate, choose};
GA_TARGET_END
