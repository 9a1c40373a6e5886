// Softmax of bf16 with AVX-512's rounding instruction.
#include "softmax.h"
#include "target.h"

GA_TARGET_BEGIN("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,sse,sse2")
#define GA_ONE_TYPE GA_BF16
#define GA_HALVES_OF_BF16(x) (halves)_mm512_cvtneps_pbh((__m512)(x))
#include "softmax_avx512_amd64.h"

#include "softmax_lanes.h"

const ga_softmax_kernels ga_avx512_bf16_softmax = {softmax_block, softmax_reread, softmax_naive};
GA_TARGET_END
