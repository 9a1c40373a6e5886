// amx: matrix products on the CPU's tiles, bf16 and int8.
#ifndef GEMMAUDIT_AMX_H
#define GEMMAUDIT_AMX_H

#include "launch.h"

// What the speed depends on and the result does not. A step is what one tile row
// holds of K: 64 bytes, 32 elements of bf16 or 64 of int8.
typedef struct {
  int rows, cols;      // block of C that a thread keeps in its second-level cache, in multiples of 32
  int steps;           // steps of K that are multiplied before the next block of C is looked at
  int stream_a;        // 1 to keep A out of the first-level cache, where the piece of B stays
  int fetch_sums;      // 1 to bring the next block's sums to the first level ahead of use
  int kept;            // KiB of C a thread up to which C is written to the caches, and past them beyond
  int prefetch_stride; // bytes between prefetches of the next operands into the second level, 0 for none
  int panels;          // panels of B that a product of few rows reads at once, 1 to 3
  int ahead;           // bytes that B is prefetched ahead in such a product, 0 for none
} ga_amx_tuning;

// ga_amx_tuned is what the kernel uses. It is changed between launches, by nothing
// but measurements of the kernel itself.
extern ga_amx_tuning ga_amx_tuned;

// ga_amx is the kernel: dtype bf16 or int8, B packed as in pack.h.
void ga_amx(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

// ga_amx_quantised is the kernel for bf16 with quantised weights (quantised.h), ga_amx_quantised_fits whether
// it takes a product.
void ga_amx_quantised(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);
int ga_amx_quantised_fits(const ga_gemm *g);

#endif
