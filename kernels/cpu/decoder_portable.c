// A decoder's operations on vectors of 16 bytes, which every baseline has.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") // fused where the baseline has it
#endif
#include "path.h"

// Registers are 16 at the least.
#define LANES 4
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
