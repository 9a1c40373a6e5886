// Epilogues of fused products: an activation of sum + bias, in fp32. Kernels of products apply them to their sums before
// they store them; ga_epilogue_pass applies one to a stored C.
#ifndef GEMMAUDIT_EPILOGUE_H
#define GEMMAUDIT_EPILOGUE_H

#include "launch.h"

// The activations, in the order of the table in Go.
typedef enum { GA_NO_ACTIVATION = 0, GA_RELU = 1, GA_GELU = 2, GA_TANH_GELU = 3, GA_SILU = 4 } ga_activation;

typedef struct ga_epilogue ga_epilogue;

struct ga_epilogue {
  ga_activation activation;
  // bias has the columns of C, up to whole panels; NULL for none.
  const float *bias;
  // apply changes rows × cols sums in place. They are ld apart; the first is of column col.
  void (*apply)(const ga_epilogue *e, float *sums, int64_t rows, int64_t ld, int64_t col, int64_t cols);
  ga_kernel pass;
};

// ga_epilogue_set fills in the functions for an instruction set (GA_ISA in path.h).
void ga_epilogue_set(ga_epilogue *e, unsigned isa);

// ga_epilogue_pass is a ga_kernel over the stored m × n elements of g->c.
void ga_epilogue_pass(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

void ga_portable_epilogue(ga_epilogue *e);
#if defined(__x86_64__)
void ga_avx2_epilogue(ga_epilogue *e);
void ga_avx512_epilogue(ga_epilogue *e);
#endif

#endif
