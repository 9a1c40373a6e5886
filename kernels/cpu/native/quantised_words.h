// Quantised weights over vectors (lanes.h): what products of few rows (quantised_few.h) and of more
// (quantised_lanes.h) have in common. The includer has defined, beside what lanes.h takes:
//
//   GROUP                     k in a word: 1 for floats, 2 for pairs of bf16
//   ROWS                      rows that are multiplied at once
//   codes, load_codes(p)      a vector of codes of 4 bits
//   table, look_up(t, x, j)   what 16 codes stand for, words of unit j of a vector of codes
//   floats_of(p)              LANES codes of 8 bits, as they are packed, as floats
//   join(low, high)           words of two vectors of weights, where GROUP is 2
//   step(sum, w, a)           sum + w · a
#ifndef GEMMAUDIT_QUANTISED_WORDS_H
#define GEMMAUDIT_QUANTISED_WORDS_H

#include "quantised.h"

// UNIT is the k of a vector of words, BLOCK4 those of a vector of codes of 4 bits; BYTES4 and BYTES8 are
// those of a block of a column.
enum { UNIT = LANES * GROUP, BLOCK4 = LANES * 8, BYTES4 = BLOCK4 / 2, BYTES8 = 32 };

enum { VECTOR = LANES * 4 }; // bytes

GA_INLINE lanes words_at(const char *p, int64_t i) { return *(const lanes_anywhere *)(p + i * VECTOR); }

// widened is scales of 16 bits as floats.
GA_INLINE lanes widened(const ga_weights *w, const uint16_t *scales) {
  return w->scale == GA_BF16 ? load(GA_BF16, scales, 0) : load(GA_FP16, scales, 0);
}

static void quantised_total(int rows, const char *sums, float *out) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < GA_QUAD; c++) out[r * GA_PANEL + c] = sum_of(words_at(sums, r * GA_QUAD + c));
}

#endif
