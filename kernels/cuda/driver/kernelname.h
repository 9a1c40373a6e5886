// What a library launches when it is called.
#ifndef GEMMAUDIT_KERNELNAME_H
#define GEMMAUDIT_KERNELNAME_H

#include "step.h"

// ga_cuda_captured is what a capture has found.
typedef struct {
  int library;    // what the library returned, 0 for success
  CUresult code;  // of the capture itself
  int kernels;    // how many there are; 0 where the driver (before 12.3) does not tell
  // Of the first of them: blocks, the shape of a cluster, {0} for none, and how many blocks a
  // multiprocessor runs at the same time, 0 where that is not told.
  unsigned grid[3], cluster[3];
  int per_sm;
} ga_cuda_captured;

// ga_cuda_kernel_symbols captures the library calls of a launch into a graph that never
// runs, and writes the symbols of the kernels in it to text, each followed by a line
// feed. What a call loads when it is first made may be refused in a capture: then one of
// its codes is not 0. The context is current.
ga_cuda_captured ga_cuda_kernel_symbols(const ga_cuda_launch *launch, CUstream stream, char *text, size_t bytes);

#endif
