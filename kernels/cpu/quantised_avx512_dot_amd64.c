// Quantised weights of activations of bf16 with AVX-512's VDPBF16PS: VPERMW looks pairs up. In a file
// of its own for the reason of path_avx512_dot_amd64.c.
#include "quantised.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,sse,sse2")
#define GROUP 2
#include "quantised_lanes_avx512_amd64.h"

typedef uint16_t codes __attribute__((vector_size(64)));
typedef codes codes_anywhere __attribute__((aligned(1), may_alias));
typedef struct { __m512i weights; } table;

GA_INLINE codes load_codes(const char *p) { return *(const codes_anywhere *)p; }

// The table is there twice: indices have five bits, of which the last belongs to another code.
GA_INLINE table table_of(const lanes *values) {
  return (table){_mm512_broadcast_i64x4((__m256i)_mm512_cvtneps_pbh((__m512)values[0]))};
}

GA_INLINE lanes look_up(const table *t, codes x, int j) {
  return (lanes)_mm512_permutexvar_epi16((__m512i)(x >> (4 * j)), t->weights);
}

GA_INLINE lanes join(lanes low, lanes high) { return (lanes)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low); }

GA_INLINE lanes step(lanes sum, lanes w, lanes a) {
  return (lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)a);
}

#include "quantised_lanes.h"

const ga_form ga_avx512_bf16_form = {"avx512 vpermw vdpbf16ps", LANES, GROUP, ROWS, TILE, quantised_pack_a, quantised_multiply, quantised_columns,
                            quantised_add, quantised_total, quantised_decode};
GA_TARGET_END
