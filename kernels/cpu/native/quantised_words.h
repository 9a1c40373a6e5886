// Code for quantized weights over vectors (lanes.h), shared by few rows (quantised_few.h) and more rows
// (quantised_lanes.h). The includer defines the macros of lanes.h, and
//
//   GROUP                     k in a word: 1 for floats, 2 for pairs of bf16
//   ROWS                      maximum rows multiplied at once
//   codes, load_codes(p)      a vector of 4-bit codes
//   table, look_up(t, x, j)   a table of 16 codes; look_up gives the words of unit j of a vector of codes
//   floats_of(p)              LANES packed 8-bit codes as floats
//   join(low, high)           words of two vectors of weights, if GROUP is 2
//   step(sum, w, a)           sum + w · a
#ifndef GEMMAUDIT_QUANTISED_WORDS_H
#define GEMMAUDIT_QUANTISED_WORDS_H

#include "quantised.h"

// UNIT is the number of k in a vector of words, BLOCK4 in a vector of 4-bit codes. BYTES4 and BYTES8 are the
// sizes of a column's block.
enum { UNIT = LANES * GROUP, BLOCK4 = LANES * 8, BYTES4 = BLOCK4 / 2, BYTES8 = 32 };

enum { VECTOR = LANES * 4 }; // bytes

GA_INLINE lanes words_at(const char *p, int64_t i) { return *(const lanes_anywhere *)(p + i * VECTOR); }

GA_INLINE lanes widened(const ga_weights *w, const uint16_t *scales) {
  return w->scale == GA_BF16 ? load(GA_BF16, scales, 0) : load(GA_FP16, scales, 0);
}

static void quantised_total(int rows, const char *sums, float *out) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < GA_QUAD; c++) out[r * GA_PANEL + c] = sum_of(words_at(sums, r * GA_QUAD + c));
}

#endif
