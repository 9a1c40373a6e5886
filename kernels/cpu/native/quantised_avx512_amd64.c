// Quantized weights with AVX-512 F, BW, DQ and VL: VPERMPS looks weights up as floats.
#include "quantised.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,sse,sse2")
#define GROUP 1
#define TERMS 1
#define PAIRED 1
#include "quantised_lanes_avx512_amd64.h"

typedef uint32_t codes __attribute__((vector_size(64)));
typedef codes codes_anywhere __attribute__((aligned(1), may_alias));
typedef struct { lanes weights; } table;

GA_INLINE codes load_codes(const char *p) { return *(const codes_anywhere *)p; }
GA_INLINE table table_of(const lanes *values) { return (table){values[0]}; }

GA_INLINE table integer_table(const float *p) { return (table){(lanes)GA_INTEGERS(p)}; }

// Nibbles of a half word are 32 k apart, so units alternate between even and odd k. VPERMPS ignores the upper
// bits of an index.
GA_INLINE lanes look_up(const table *t, codes x, int j) {
  return (lanes)_mm512_permutexvar_ps((__m512i)(x >> (j / 2 * 4 + j % 2 * 16)), (__m512)t->weights);
}

GA_INLINE lanes even(lanes x, lanes y) {
  const __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return (lanes)_mm512_permutex2var_ps((__m512)x, at, (__m512)y);
}
GA_INLINE lanes odd(lanes x, lanes y) {
  const __m512i at = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return (lanes)_mm512_permutex2var_ps((__m512)x, at, (__m512)y);
}

GA_INLINE lanes step(lanes sum, lanes w, lanes a) { return GA_FUSED(w, a, sum); }

#include "quantised_few.h"
#include "quantised_lanes.h"

const ga_form ga_avx512_form = {"avx512 vpermps", LANES, GROUP, 2, ROWS, TILE, quantised_pack_a, quantised_multiply, NULL,
                            quantised_add, quantised_total, quantised_decode};
const ga_few ga_avx512_few = {"avx512 vpermps", 4, LANES, quantised_pack_a, few_multiply, quantised_total};

void ga_transpose_avx512(const char *from, int64_t pitch, char *to, int64_t to_pitch) {
  lanes v[LANES];
  _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) v[i] = (lanes)_mm512_loadu_ps(from + i * pitch);
  transpose(v);
  _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) _mm512_storeu_ps(to + i * to_pitch, (__m512)v[i]);
}
GA_TARGET_END
