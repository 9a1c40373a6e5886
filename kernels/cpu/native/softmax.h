// Softmax of the rows of a matrix and its logarithm, as kernels whose plan is a
// ga_softmax. They are written once, over vectors (lanes.h), and compiled for each
// instruction set. No result depends on the number of threads.
#ifndef GEMMAUDIT_SOFTMAX_H
#define GEMMAUDIT_SOFTMAX_H

#include "pool.h"

// GA_SOFTMAX_SEGMENT is the columns that a maximum and a sum are of; those of a row are then
// joined in order. A segment's exponentials take half of a first-level cache.
enum { GA_SOFTMAX_SEGMENT = 4096 };

// GA_SOFTMAX_KEPT is the most columns of which a thread's scratch holds the exponentials.
enum { GA_SOFTMAX_KEPT = 1 << 20 };

typedef struct {
  float top, sum;
} ga_softmax_part;

typedef struct {
  int64_t rows, columns, queries; // queries is 0 without a mask
  ga_dtype dtype;
  float scale;
  int log;
  int stream;       // whether to store past the cache
  int64_t segments; // of a row
  const void *in;
  void *out;
} ga_softmax;

// ga_softmax_parts are behind the plan: [threads, at least 2][segments].
static inline ga_softmax_part *ga_softmax_parts(const ga_softmax *s) { return (ga_softmax_part *)(s + 1); }

typedef struct {
  ga_kernel block, reread, naive;
} ga_softmax_kernels;

// ga_softmax_for are the best kernels of a type with the instruction sets of isa (path.h).
const ga_softmax_kernels *ga_softmax_for(ga_dtype type, unsigned isa);

extern const ga_softmax_kernels ga_portable_softmax;
#if defined(__x86_64__)
extern const ga_softmax_kernels ga_avx2_softmax, ga_avx512_softmax, ga_avx512_bf16_softmax;
#endif

#endif
