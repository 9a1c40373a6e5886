// Steps of a launch: the interface between blocks (execute.h) and everything that enqueues work, our kernels
// and libraries.
#ifndef GEMMAUDIT_STEP_H
#define GEMMAUDIT_STEP_H

#include <cuda.h>

// ga_cuda_enqueue enqueues work and returns 0, or the library's own error code. It must not wait for the
// device: the stream is blocked while a block is enqueued. self is the step's own argument.
typedef int (*ga_cuda_enqueue)(void *self, CUstream stream);

// ga_cuda_step is one kernel of ours, or, with enqueue, one library call.
typedef struct {
  ga_cuda_enqueue enqueue;  // NULL for a kernel
  void *self;
  int launches;  // maximum kernels that enqueue launches; 1 for a kernel

  CUfunction function;
  unsigned grid[3], block[3], cluster[3];  // cluster[0] is 0 without clusters
  unsigned shared;                         // dynamic shared memory in bytes
  int overlap;                             // may begin while its predecessor drains
  int cooperative;                         // its blocks wait for each other
  void *params;                            // the struct that is the kernel's parameter
} ga_cuda_step;

// ga_cuda_launch is one product: its steps in sequence.
typedef struct {
  int count;
  int launches;  // the sum over the steps
  ga_cuda_step steps[];
} ga_cuda_launch;

#endif
