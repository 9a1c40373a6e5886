// Kernels loaded from shared libraries (kernels/plugin), as steps of a launch.
#ifndef GEMMAUDIT_CUDA_BROUGHT_H
#define GEMMAUDIT_CUDA_BROUGHT_H

#include <cuda.h>

#include "../../plugin/include/gemmaudit_kernel.h"

// One launch of such a kernel, and the packing of its B.
typedef struct {
  const gemmaudit_kernel *kernel;
  gemmaudit_launch launch;
  const void *raw;  // B as given, for ga_cuda_brought_prepare
  void *packed;
  char error[GEMMAUDIT_ERROR_BYTES];
} ga_cuda_brought_call;

// ga_cuda_brought_enqueue (the product) and ga_cuda_brought_prepare (the packing) are of type
// ga_cuda_enqueue; call is a ga_cuda_brought_call. They return the library's code.
int ga_cuda_brought_enqueue(void *call, CUstream stream);
int ga_cuda_brought_prepare(void *call, CUstream stream);

// One launch of a softmax, and its ga_cuda_enqueue.
typedef struct {
  const gemmaudit_softmax *softmax;
  gemmaudit_softmax_launch launch;
  char error[GEMMAUDIT_ERROR_BYTES];
} ga_cuda_brought_softmax_call;

int ga_cuda_brought_softmax_enqueue(void *call, CUstream stream);

#endif
