#include "epilogue.h"
#include "path.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#define GA_FUSED(a, b, c) (lanes)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#else
#define GA_FUSED(a, b, c) ((a) * (b) + (c))
#endif

#define LANES 4
#define GA_QUARTER(x, i) (four)(x)

#include "epilogue_lanes.h"

void ga_portable_epilogue(ga_epilogue *e) { e->apply = apply, e->pass = pass; }

void ga_epilogue_set(ga_epilogue *e, unsigned isa) {
#if defined(__x86_64__)
  if (isa & GA_ISA_AVX512) {
    ga_avx512_epilogue(e);
    return;
  }
  if (isa & GA_ISA_AVX2) {
    ga_avx2_epilogue(e);
    return;
  }
#else
  (void)isa;
#endif
  ga_portable_epilogue(e);
}

void ga_epilogue_pass(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  g->epilogue->pass(g, tid, nthreads, scratch, team);
}
