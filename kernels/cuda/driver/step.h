// What a launch consists of: the interface between blocks (execute.h) and all that
// puts work on the device, our kernels as well as libraries.
#ifndef GEMMAUDIT_STEP_H
#define GEMMAUDIT_STEP_H

#include <cuda.h>

// ga_cuda_enqueue puts work on a stream and returns 0, or the library's own code
// for what went wrong. It must not wait for the device: the stream stands still
// while a block is put together. self is what the step was made with.
typedef int (*ga_cuda_enqueue)(void *self, CUstream stream);

// ga_cuda_step is one kernel of ours, or, with enqueue, one call of a library.
typedef struct {
  ga_cuda_enqueue enqueue;  // NULL for a kernel
  void *self;
  int launches;  // kernels that enqueue launches at most; 1 for a kernel

  CUfunction function;
  unsigned grid[3], block[3], cluster[3];  // cluster[0] is 0 for none
  unsigned shared;                         // dynamic shared memory in bytes
  int overlap;                             // may begin while its predecessor drains
  int cooperative;                         // its blocks wait for each other
  void *params;                            // the struct that is the kernel's parameter
} ga_cuda_step;

// ga_cuda_launch is one product: its steps, one after the other.
typedef struct {
  int count;
  int launches;  // the sum of the steps'
  ga_cuda_step steps[];
} ga_cuda_launch;

#endif
