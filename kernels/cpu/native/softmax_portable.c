#include "path.h"
#include "softmax.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#define GA_FUSED(a, b, c) (lanes)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#else
#define GA_FUSED(a, b, c) ((a) * (b) + (c))
#endif

#define LANES 4
#define GA_QUARTER(x, i) (four)(x)
#define GA_MAX(a, b) larger(a, b)
#define GA_STREAM(p, v) store(GA_FP32, p, 0, v)
#define GA_STREAM_HALVES(p, v) (*(halves_anywhere *)(void *)(p) = (v))
#define GA_FENCE() (void)0
#define GA_FLUSH_BEGIN
#define GA_FLUSH_END

#include "softmax_lanes.h"

const ga_softmax_kernels ga_portable_softmax = {softmax_block, softmax_reread, softmax_naive};

const ga_softmax_kernels *ga_softmax_for(ga_dtype type, unsigned isa) {
#if defined(__x86_64__)
  if (type == GA_BF16 && isa & GA_ISA_BF16) return &ga_avx512_bf16_softmax;
  if (isa & GA_ISA_AVX512) return &ga_avx512_softmax;
  if (isa & GA_ISA_AVX2) return &ga_avx2_softmax;
#else
  (void)type;
  (void)isa;
#endif
  return &ga_portable_softmax;
}
