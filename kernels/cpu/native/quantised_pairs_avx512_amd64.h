// Pairs of bf16 in AVX-512 words: VPERMW looks them up, VDPBF16PS multiplies them.
#ifndef GEMMAUDIT_QUANTISED_PAIRS_AVX512_AMD64_H
#define GEMMAUDIT_QUANTISED_PAIRS_AVX512_AMD64_H

#define GROUP 2
#include "quantised_lanes_avx512_amd64.h"

typedef uint16_t codes __attribute__((vector_size(64)));
typedef codes codes_anywhere __attribute__((aligned(1), may_alias));
typedef struct { __m512i weights; } table;

GA_INLINE codes load_codes(const char *p) { return *(const codes_anywhere *)p; }
GA_INLINE table integer_table(const uint16_t *p) { return (table){GA_INTEGERS(p)}; }

// shifted puts unit j's codes in the lower half of each half word. The shift by a byte is a shuffle: on
// Intel, shifts and dot products use the first of two 64-byte ports, shuffles the second.
GA_INLINE __m512i shifted(codes x, int j) {
  const __m512i upper = _mm512_broadcast_i32x4(_mm_setr_epi8(1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15));
  return j == 2 ? _mm512_shuffle_epi8((__m512i)x, upper) : (__m512i)(x >> (4 * j));
}

// VPERMW ignores the upper bits of an index.
GA_INLINE lanes look_up(const table *t, codes x, int j) {
  return (lanes)_mm512_permutexvar_epi16(shifted(x, j), t->weights);
}

GA_INLINE lanes join(lanes low, lanes high) { return (lanes)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low); }

GA_INLINE lanes step(lanes sum, lanes w, lanes a) {
  return (lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)a);
}

#endif
