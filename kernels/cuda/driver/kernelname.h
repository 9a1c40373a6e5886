// The kernels that a library call launches.
#ifndef GEMMAUDIT_KERNELNAME_H
#define GEMMAUDIT_KERNELNAME_H

#include "step.h"

// ga_cuda_captured is the result of a capture.
typedef struct {
  int library;    // the library's code, 0 for success
  CUresult code;  // of the capture itself
  int kernels;    // number of kernels; 0 if the driver (before 12.3) does not report them
  // Of the first kernel: blocks, cluster shape ({0} without clusters), and resident blocks per
  // multiprocessor, 0 if unknown.
  unsigned grid[3], cluster[3];
  int per_sm;
} ga_cuda_captured;

// ga_cuda_kernel_symbols captures the library calls of a launch into a graph that never runs, and writes the
// kernels' symbols to text, each followed by a line feed. If the call must load code, the capture may fail,
// with a nonzero code. The context must be current.
ga_cuda_captured ga_cuda_kernel_symbols(const ga_cuda_launch *launch, CUstream stream, char *text, size_t bytes);

#endif
