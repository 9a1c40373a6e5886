#include "decoder.h"
#include "path.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#define GA_FUSED(a, b, c) (lanes)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#else
#define GA_FUSED(a, b, c) ((a) * (b) + (c))
#endif

// At least 16 registers.
#define LANES 4
#define GA_QUARTER(x, i) (four)(x)
#define GA_LOW(a, b) GA_FOUR(a, b, 0, 4, 1, 5)
#define GA_HIGH(a, b) GA_FOUR(a, b, 2, 6, 3, 7)
#define GA_FRONT(a, b) GA_FOUR(a, b, 0, 1, 4, 5)
#define GA_BACK(a, b) GA_FOUR(a, b, 2, 3, 6, 7)
enum { TILE_ROWS = 4, TILE_VECTORS = 2, FEW_QUERIES = 2 };

#include "attention_lanes.h"
#include "decoder_lanes.h"

const ga_decoder ga_portable_decoder = {embed, normalize, rotate, attend, gate, choose};

const ga_decoder *ga_decoder_for(unsigned isa) {
#if defined(__x86_64__)
  if (isa & GA_ISA_AVX512) return &ga_avx512_decoder;
  if (isa & GA_ISA_AVX2) return &ga_avx2_decoder;
#else
  (void)isa;
#endif
  return &ga_portable_decoder;
}
