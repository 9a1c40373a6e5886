// 4-bit weights in strips: a vector of codes has several columns side by side, so scales and sums are vectors over
// columns, and few rows are multiplied as integers. A panel of GA_PANEL columns (pack.h) has GA_PANEL / strip
// strips. A strip is one contiguous stream of `strip` columns with all of K:
//
//   scales  [K / group][strip]       of 16 bits
//   zeros   [K / group][strip]       bytes, optional; padded to 64 bytes with the scales
//   codes   [K / 32][4][strip][4]    bytes; codes beyond K stand for 0
//
// Byte b of a column's word v of a block of 32 k has the code of k = 8·v + b in its lower half and of 8·v + 4 + b in
// its upper half.
//
// Activations are blocks of 32 k with a scale each, a power of two, and integers of 23 bits: the limbs are their three
// signed digits of 8 bits. An element keeps all of its bits if it is at least 2^-11 (fp16) or 2^-14 (bf16) of its
// block's largest; the error of a smaller one is at most 2^-23 of the largest, as in a sum in fp32. Integer sums of a
// block are exact. With one limb, activations are rounded to 8 bits: the scale is the largest ÷ 127.
#ifndef GEMMAUDIT_STRIPS_H
#define GEMMAUDIT_STRIPS_H

#include "quantised.h"

// GA_BLOCK_K is the k of a block. One row is multiplied by GA_STRIP_PAIR strips at once: they share its loads.
enum { GA_BLOCK_K = 32, GA_EXACT_LIMBS = 3, GA_STRIP_PAIR = 2 };

struct ga_strip_code {
  int rows, rounded_rows; // maximum rows of multiply, with all limbs and with one
  // pack writes rows of A as blocks [K / 32][rows] of ga_limb_bytes. It reports whether all elements are finite.
  int (*pack)(const ga_gemm *g, int64_t row, int rows, char *out);
  // multiply writes the product of a tile of packed rows and a strip to sums, [rows][GA_PANEL]. A tile of one row
  // takes up to GA_STRIP_PAIR strips.
  void (*multiply)(const ga_gemm *g, int rows, int strips, const char *strip, const char *a, float *sums);
  // floats is multiply with raw A in fp32, for rows with infinities or NaN.
  void (*floats)(const ga_gemm *g, int64_t row, int rows, const char *strip, float *sums);
};

// ga_limb_bytes is the size of a row's block: scale, sum and limbs.
static inline int64_t ga_limb_bytes(const ga_weights *w) { return 8 + GA_BLOCK_K * w->limbs; }

static inline int64_t ga_strip_header(const ga_weights *w, int64_t k) {
  return (k / w->group * ((const ga_form *)w->form)->strip * (w->zeros ? 3 : 2) + 63) / 64 * 64;
}

static inline int64_t ga_strip_bytes(const ga_weights *w, int64_t k) {
  return ga_strip_header(w, k) + ga_quantised_k(w, k) / 2 * ((const ga_form *)w->form)->strip;
}

// ga_strip_pack packs one strip from the operands of ga_quantised_pack.
void ga_strip_pack(const ga_gemm *g, const uint8_t *codes, const uint16_t *scales, const uint8_t *zeros, int64_t strip, char *out);

// ga_strips is the kernel for any number of rows. ga_strips_fit reports whether a tile of rows fits in scratch.
void ga_strips(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);
int ga_strips_fit(const ga_gemm *g);

// ga_strips_for returns the form of an instruction set, or NULL.
const ga_form *ga_strips_for(unsigned isa);

#if defined(__x86_64__)
extern const ga_form ga_avx2_strips, ga_avx512_strips, ga_avx512_vnni_strips;
#endif

#endif
