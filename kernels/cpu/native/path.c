#include "path.h"

const ga_path *ga_path_for(ga_dtype t, unsigned isa) {
#if defined(__x86_64__)
  if (isa & GA_ISA_AVX512) {
    if (t == GA_BF16 && isa & GA_ISA_BF16) return &ga_avx512_bf16_path;
    if (t == GA_INT8 && isa & GA_ISA_VNNI) return &ga_avx512_vnni_path;
    return &ga_avx512_paths[t];
  }
  if (isa & GA_ISA_AVX2) return &ga_avx2_paths[t];
#else
  (void)isa;
#endif
  return &ga_portable_paths[t];
}
