// Paths for AVX-512's dot products VDPBF16PS and VPDPBUSD, which read packed B directly. A separate file
// keeps the compiler from using these instructions in code for the base set.
#include "path.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")
#include "pack_a_amd64.h"
#include "tile_avx512_amd64.h"

#define STEP_BF16(acc, a, b) _mm512_dpbf16_ps(acc, (__m512bh)(a), (__m512bh)(b))
// Unsigned A times signed B; the column sums correct the offset.
#define STEP_UINT8(acc, a, b) _mm512_dpbusd_epi32(acc, a, b)
GA_TILE_AVX512(tile_bf16, __m512, _mm512_load_ps, _mm512_store_ps, _mm512_setzero_ps, _mm512_add_ps, STEP_BF16, GA_B_PS, 512)
GA_TILE_AVX512(tile_uint8, __m512i, _mm512_load_si512, _mm512_store_si512, _mm512_setzero_si512, _mm512_add_epi32, STEP_UINT8, GA_B_SI, 512)

GA_PACK_A(pack_a_bf16, 8, 2, GA_LOAD_AS_IS)
GA_PACK_A(pack_a_uint8, 16, 1, GA_LOAD_UINT8)

const ga_path ga_avx512_bf16_path = {"avx512 14x32 vdpbf16ps", 14, 2, 1, pack_a_bf16, NULL, tile_bf16, tile_bf16, store_bf16, stream_bf16};
const ga_path ga_avx512_vnni_path = {"avx512 14x32 vpdpbusd", 14, 4, 1, pack_a_uint8, NULL, tile_uint8, tile_uint8, store_int32, stream_int32};
GA_TARGET_END
