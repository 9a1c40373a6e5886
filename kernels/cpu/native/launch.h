// What every CPU kernel is to the code that runs it: a launch. A launch is
// executed by all threads of a pool at once (our kernels), or called once on the
// pool's first thread while the others sleep (libraries with threads of their own).
#ifndef GEMMAUDIT_LAUNCH_H
#define GEMMAUDIT_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

// Element types, in the order of the Go side's table.
typedef enum { GA_FP32 = 0, GA_FP16 = 1, GA_BF16 = 2, GA_INT8 = 3 } ga_dtype;

// A team is the set of threads that executes one launch together.
typedef struct ga_team ga_team;
// ga_barrier waits until all threads of the team have arrived.
void ga_barrier(ga_team *team);

// Weights that are integers with scales (quantised.h). bits is 0 for plain ones.
typedef struct {
  int bits;         // of a weight: 4 or 8
  int zeros;        // groups have zero points
  int64_t group;    // how many weights along k share a scale
  ga_dtype scale;   // of the scales
  const void *form; // how they are stored and decoded: a ga_form
  const void *few;  // how few rows are multiplied by them: a ga_few
} ga_weights;

// One product. Strides are in elements. b is in the kernel's own packed form,
// or raw with ldb when the kernel does not pack.
typedef struct {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  const void *a;
  const void *b;
  void *c;
  ga_dtype dtype;
  int b_transposed;   // raw b is N×K
  const void *b_raw;  // set when packing happens inside the timing, else NULL
  void *b_inside;     // where to pack it to
  const void *plan;   // what the kernel chose when it was bound: its own, read only
  ga_weights weights;
  // Of a batch that a library computes in one call, 0 for a single product: how many, and
  // the elements from one product's operand to the next one's.
  int64_t products, stride_a, stride_b, stride_c;
} ga_gemm;

// A kernel: called by every thread of the team with its own tid and its own
// scratch (GA_SCRATCH_BYTES, 64-byte aligned, kept between launches).
typedef void (*ga_kernel)(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

// A library: called on one thread, which starts its own. Returns 0 or an error.
typedef int (*ga_call)(void *arg);

typedef struct {
  ga_kernel kernel; // or NULL
  ga_gemm gemm;
  ga_call call; // or NULL
  void *arg;
  int threads; // team size of a kernel, 1..the pool's threads
} ga_launch;

#define GA_SCRATCH_BYTES ((size_t)8 << 20)

#endif
