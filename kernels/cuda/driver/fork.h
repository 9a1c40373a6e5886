// Launches that run at the same time in several streams.
#ifndef GEMMAUDIT_CUDA_FORK_H
#define GEMMAUDIT_CUDA_FORK_H

#include "execute.h"

enum { GA_LANES = 4 };

// ga_cuda_lanes is a device's further streams, and the events that tie them to the stream that forks.
typedef struct {
  CUstream stream[GA_LANES];
  CUevent fork, end[GA_LANES];
} ga_cuda_lanes;

// ga_cuda_forked is launches, of which the i-th runs in lane i % GA_LANES.
typedef struct {
  const ga_cuda_lanes *lanes;
  int count;
  const ga_cuda_launch *launches[];
} ga_cuda_forked;

enum { GA_FORK_DRIVER = 1 << 16 }; // above all codes of libraries

// ga_cuda_fork_enqueue enqueues a ga_cuda_forked after the work of a stream, whose later work waits for all of it. In a
// capture the lanes become branches of the graph. It returns 0, a library's code, or GA_FORK_DRIVER plus the driver's code.
int ga_cuda_fork_enqueue(void *forked, CUstream stream);

#endif
