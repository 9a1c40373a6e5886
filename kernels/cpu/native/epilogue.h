// Epilogues of fused products: a bias and a further step on sums in fp32. Kernels of products apply them to their sums before
// they store them; ga_epilogue_pass applies one to a stored product.
#ifndef GEMMAUDIT_EPILOGUE_H
#define GEMMAUDIT_EPILOGUE_H

#include "launch.h"
#include "pack.h"

// The steps, in the order of the table in Go.
typedef enum {
  GA_NO_ACTIVATION = 0, GA_RELU = 1, GA_GELU = 2, GA_TANH_GELU = 3, GA_SILU = 4, GA_GATED = 5, GA_RESIDUAL = 6
} ga_activation;

// Kernels that apply a gated epilogue multiply weights whose panels begin with GA_GATES columns of gates, and end with the
// columns that these multiply.
enum { GA_GATES = GA_PANEL / 2 };

typedef struct ga_epilogue ga_epilogue;

struct ga_epilogue {
  ga_activation activation;
  int64_t columns; // of C
  // bias has the columns of B, as they lie there, up to whole panels; NULL for none.
  const float *bias;
  // apply changes rows × cols sums in place. They are ld apart; the first is of row and of column col of B. If gated, cols
  // counts gates, and their products take their places.
  void (*apply)(const ga_gemm *g, float *sums, int64_t rows, int64_t ld, int64_t row, int64_t col, int64_t cols);
  ga_kernel pass;
};

// A run of columns of C.
typedef struct {
  int64_t first, count;
} ga_columns;

// ga_finish applies the epilogue, if any, to rows of a panel of sums, of column col of B on. It returns the columns of C that
// the panel begins with now.
static inline ga_columns ga_finish(const ga_gemm *g, void *sums, int64_t rows, int64_t row, int64_t col) {
  const ga_epilogue *e = g->epilogue;
  int64_t width = GA_PANEL, n = g->n;
  if (e != NULL && e->activation == GA_GATED) width = GA_GATES, n = e->columns;
  ga_columns c = {col / GA_PANEL * width, width};
  if (c.count > n - c.first) c.count = n - c.first;
  if (e != NULL) e->apply(g, (float *)sums, rows, GA_PANEL, row, col, c.count);
  return c;
}

// ga_epilogue_set fills in the functions for an instruction set (GA_ISA in path.h).
void ga_epilogue_set(ga_epilogue *e, unsigned isa);

// ga_epilogue_pass is a ga_kernel over the stored product: m rows of g->c, or of g->a with lda if gated.
void ga_epilogue_pass(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

void ga_portable_epilogue(ga_epilogue *e);
#if defined(__x86_64__)
void ga_avx2_epilogue(ga_epilogue *e);
void ga_avx512_epilogue(ga_epilogue *e);
#endif

#endif
