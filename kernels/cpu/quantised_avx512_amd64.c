// Quantised weights with AVX-512 F, BW, DQ and VL: VPERMPS looks weights up as floats.
#include "quantised.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,sse,sse2")
#define GROUP 1
#include "quantised_lanes_avx512_amd64.h"

typedef uint32_t codes __attribute__((vector_size(64)));
typedef codes codes_anywhere __attribute__((aligned(1), may_alias));
typedef struct { lanes weights; } table;

GA_INLINE codes load_codes(const char *p) { return *(const codes_anywhere *)p; }
GA_INLINE table table_of(const lanes *values) { return (table){values[0]}; }

// The upper bits of an index are ignored.
GA_INLINE lanes look_up(const table *t, codes x, int j) {
  return (lanes)_mm512_permutexvar_ps((__m512i)(x >> (4 * j)), (__m512)t->weights);
}

GA_INLINE lanes step(lanes sum, lanes w, lanes a) { return GA_FUSED(w, a, sum); }

#include "quantised_lanes.h"

const ga_form ga_avx512_form = {"avx512 vpermps", LANES, GROUP, ROWS, TILE, quantised_pack_a, quantised_multiply, NULL,
                            quantised_add, quantised_total, quantised_decode};

void ga_transpose_avx512(const char *from, int64_t pitch, char *to, int64_t to_pitch) {
  lanes v[LANES];
  _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) v[i] = *(const lanes_anywhere *)(from + i * pitch);
  transpose(v);
  _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) *(lanes_anywhere *)(to + i * to_pitch) = v[i];
}
GA_TARGET_END
