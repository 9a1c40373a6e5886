// Softmax of a matrix's rows and its logarithm, as kernels with a ga_softmax as plan. One source over vectors
// (lanes.h) is compiled for each instruction set. Results do not depend on the number of threads.
#ifndef GEMMAUDIT_SOFTMAX_H
#define GEMMAUDIT_SOFTMAX_H

#include "pool.h"

// GA_SOFTMAX_SEGMENT is the number of columns with a separate maximum and sum, which are joined in order. A
// segment's exponentials take half of L1.
enum { GA_SOFTMAX_SEGMENT = 4096 };

// GA_SOFTMAX_KEPT is the maximum number of columns whose exponentials fit in a thread's scratch.
enum { GA_SOFTMAX_KEPT = 1 << 20 };

typedef struct {
  float top, sum;
} ga_softmax_part;

typedef struct {
  int64_t rows, columns, queries; // queries is 0 without a mask
  ga_dtype dtype;
  float scale;
  int log;
  int stream;       // use non-temporal stores
  int64_t segments; // of a row
  const void *in;
  void *out;
} ga_softmax;

// ga_softmax_parts follow the plan: [threads, at least 2][segments].
static inline ga_softmax_part *ga_softmax_parts(const ga_softmax *s) { return (ga_softmax_part *)(s + 1); }

typedef struct {
  ga_kernel block, reread, naive;
} ga_softmax_kernels;

const ga_softmax_kernels *ga_softmax_for(ga_dtype type, unsigned isa);

extern const ga_softmax_kernels ga_portable_softmax;
#if defined(__x86_64__)
extern const ga_softmax_kernels ga_avx2_softmax, ga_avx512_softmax, ga_avx512_bf16_softmax;
#endif

#endif
