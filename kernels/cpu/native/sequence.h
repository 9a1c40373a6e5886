// A batch of products as one launch: they run in sequence, each on all threads.
#ifndef GEMMAUDIT_SEQUENCE_H
#define GEMMAUDIT_SEQUENCE_H

#include "launch.h"

// The products of one kernel, all on the same number of threads, or of one library.
typedef struct {
  int64_t count;
  ga_launch launches[];
} ga_sequence;

// ga_sequence_new allocates space for count launches; the caller frees it.
ga_sequence *ga_sequence_new(int64_t count);

void ga_sequence_set(ga_sequence *s, int64_t i, const ga_launch *launch);

// ga_sequence_kernel is a ga_kernel; g->plan is a ga_sequence of kernels.
void ga_sequence_kernel(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

// ga_sequence_call is a ga_call for a ga_sequence of calls. It stops at the first error.
int ga_sequence_call(void *sequence);

#endif
