// Products of fp8 (e4m3) operands with scales: those of A for each row and group of K, those of B for each column, or
// block of columns, and group. The sums of a group are fp32, as is their sum over groups. The output is bf16.
//
// Packed B:
//   [ceil(N/32)][groups][words of a group][32][g]  fp8, padded with zeros; g is the k of a word of the bf16 path (path.h)
//   [ceil(N/32)][groups][32]                       scales, fp32
// The words of a group are a multiple of 4.
#ifndef GEMMAUDIT_SCALED_H
#define GEMMAUDIT_SCALED_H

#include "path.h"

// A ga_fp8_decode widens n codes, a multiple of 64, to fp32 or bf16.
typedef void (*ga_fp8_decode)(const uint8_t *codes, int64_t n, void *out);

typedef struct {
  const ga_path *path;  // for bf16
  ga_fp8_decode decode; // to the words that the path's tile reads: fp32, or bf16 in pairs
} ga_scaled_form;

const ga_scaled_form *ga_scaled_form_for(unsigned isa);

#if defined(__x86_64__)
void ga_avx2_fp8_to_float(const uint8_t *codes, int64_t n, void *out);
void ga_avx512_fp8_to_float(const uint8_t *codes, int64_t n, void *out);
void ga_avx512_fp8_to_bf16(const uint8_t *codes, int64_t n, void *out);
#endif

// ga_scaled_bytes is the size of packed B; g->weights.form is a ga_scaled_form.
int64_t ga_scaled_bytes(const ga_gemm *g);

// ga_scaled_pack packs codes [N,K] with scales [N/columns, K/group].
void ga_scaled_pack(ga_pool *pool, const ga_gemm *g, const void *codes, const void *scales, void *packed);

// ga_scaled_fits reports whether a row of A fits next to the weights.
int ga_scaled_fits(const ga_gemm *g);

void ga_scaled(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

// ga_scaled_naive is the triple loop on raw B.
void ga_scaled_naive(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

#endif
