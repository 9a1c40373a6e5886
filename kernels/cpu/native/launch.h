// The interface between CPU kernels and the code that runs them. All threads of a pool execute a launch of
// our kernels at once. A library with its own threads is called on the pool's first thread while the others
// sleep.
#ifndef GEMMAUDIT_LAUNCH_H
#define GEMMAUDIT_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

// Element types, in the order of the table in Go.
typedef enum { GA_FP32 = 0, GA_FP16 = 1, GA_BF16 = 2, GA_INT8 = 3, GA_FP8 = 4 } ga_dtype;

// The threads that execute one launch together.
typedef struct ga_team ga_team;
// ga_barrier waits until all threads of the team have arrived.
void ga_barrier(ga_team *team);

// Quantized weights (quantised.h, scaled.h); bits is 0 for plain weights.
typedef struct {
  int bits;         // of a weight: 4 or 8
  int zeros;        // groups have zero points
  int64_t group;    // weights along k per scale
  int64_t columns;  // weights along n per scale; fp8 only
  ga_dtype scale;   // of the scales
  const void *form; // storage and decoder: a ga_form, or a ga_scaled_form of fp8
  const void *few;  // kernel for few rows: a ga_few
  int limbs;        // integers of 8 bits that an activation is held as, in strips (strips.h); 1 rounds it
} ga_weights;

// What a fused product does to its sums (epilogue.h).
struct ga_epilogue;

// One product. Strides are in elements. b is in the kernel's packed format, or raw with ldb.
typedef struct {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  const void *a;
  const void *b;
  void *c;
  ga_dtype dtype;
  int b_transposed;   // raw b is N×K
  const void *b_raw;  // raw B if the launch packs it, else NULL
  void *b_inside;     // destination for packing in the launch
  const void *plan;   // the kernel's own data from binding, read-only
  const struct ga_epilogue *epilogue; // or NULL
  const void *residual; // m × n elements of the epilogue, contiguous, or NULL
  ga_weights weights;
  // Scales of fp8: of A, group by group at a distance, and of raw B.
  const float *a_scales, *b_scales;
  int64_t a_scales_ld;
  // Batch size, and elements between consecutive operands, if a library computes a batch in one call; 0 for a
  // single product.
  int64_t products, stride_a, stride_b, stride_c;
} ga_gemm;

// A kernel, called by each thread of the team with its tid and scratch (GA_SCRATCH_BYTES, 64-byte aligned,
// kept between launches).
typedef void (*ga_kernel)(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

// A library call on one thread, which starts the library's threads. It returns 0 or an error.
typedef int (*ga_call)(void *arg);

typedef struct {
  ga_kernel kernel; // or NULL
  ga_gemm gemm;
  ga_call call; // or NULL
  void *arg;
  int threads; // team size of a kernel, 1 to the pool's threads
} ga_launch;

#define GA_SCRATCH_BYTES ((size_t)8 << 20)

#endif
