// Quantized weights for bf16 activations with AVX-512's VDPBF16PS: VPERMW looks up pairs. A separate file for
// the reason given in path_avx512_dot_amd64.c.
#include "quantised.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,sse,sse2")
#define GROUP 2
#define TERMS 1
#define PAIRED 0
#include "quantised_pairs_avx512_amd64.h"

// The table is stored twice: an index has five bits, and the highest belongs to another code.
GA_INLINE table table_of(const lanes *values) {
  return (table){_mm512_broadcast_i64x4((__m256i)_mm512_cvtneps_pbh((__m512)values[0]))};
}

#include "quantised_few.h"
#include "quantised_lanes.h"

const ga_form ga_avx512_bf16_form = {"avx512 vpermw vdpbf16ps", LANES, GROUP, 2, ROWS, TILE, quantised_pack_a, quantised_multiply, quantised_columns,
                            quantised_add, quantised_total, quantised_decode};
const ga_few ga_avx512_bf16_few = {"avx512 vpermw vdpbf16ps", 2, LANES, quantised_pack_a, few_multiply, quantised_total};
GA_TARGET_END
