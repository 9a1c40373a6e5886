// Kernels that are brought as shared libraries (kernels/plugin), as steps of a launch.
#ifndef GEMMAUDIT_CUDA_BROUGHT_H
#define GEMMAUDIT_CUDA_BROUGHT_H

#include <cuda.h>

#include "../../plugin/include/gemmaudit_kernel.h"

// One launch of such a kernel, and what packs its B.
typedef struct {
  const gemmaudit_kernel *kernel;
  gemmaudit_launch launch;
  const void *raw;  // B as it was given, for ga_cuda_brought_prepare
  void *packed;
  char error[GEMMAUDIT_ERROR_BYTES];
} ga_cuda_brought_call;

// ga_cuda_brought_enqueue and ga_cuda_brought_prepare are ga_cuda_enqueue on a ga_cuda_brought_call: the
// product, and the packing. They return what the library did.
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
