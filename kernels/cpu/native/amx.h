// amx: bf16 and int8 GEMMs on the CPU's tile registers.
#ifndef GEMMAUDIT_AMX_H
#define GEMMAUDIT_AMX_H

#include "launch.h"

// Parameters that change the speed but not the result. A step is the K range of one tile row: 64 bytes, 32
// elements of bf16 or 64 of int8.
typedef struct {
  int rows, cols;      // block of C in a thread's L2, multiples of 32
  int steps;           // steps of K multiplied per block of C at a time
  int stream_a;        // 1: A bypasses L1, where the piece of B stays
  int fetch_sums;      // 1: prefetch the next block's sums into L1
  int kept;            // KiB of C per thread; larger outputs use non-temporal stores
  int prefetch_stride; // bytes between prefetches of next operands into L2, or 0
  int panels;          // panels of B read at once for few rows, 1 to 3
  int ahead;           // prefetch distance of B in bytes for few rows, or 0
} ga_amx_tuning;

// ga_amx_tuned is the active tuning. Only benchmarks and tests change it, between launches.
extern ga_amx_tuning ga_amx_tuned;

// ga_amx is the kernel for bf16 or int8, with B packed as in pack.h.
void ga_amx(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

// ga_amx_quantised is the kernel for bf16 with quantized weights (quantised.h); ga_amx_quantised_fits reports
// whether it supports a product.
void ga_amx_quantised(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);
int ga_amx_quantised_fits(const ga_gemm *g);

#endif
