// Launches of user kernels from shared libraries (kernels/plugin).
#ifndef GEMMAUDIT_BROUGHT_H
#define GEMMAUDIT_BROUGHT_H

#include "../../plugin/include/gemmaudit_kernel.h"
#include "launch.h"

typedef struct {
  const gemmaudit_kernel *kernel;
  gemmaudit_launch launch;
  const void *raw; // raw B if each launch packs it into packed; else NULL
  void *packed;
  char error[GEMMAUDIT_ERROR_BYTES];
} ga_brought_call;

// ga_brought_run is a ga_call for a ga_brought_call; it returns the library's code.
int ga_brought_run(void *call);

typedef struct {
  const gemmaudit_softmax *softmax;
  gemmaudit_softmax_launch launch;
  char error[GEMMAUDIT_ERROR_BYTES];
} ga_brought_softmax_call;

int ga_brought_softmax_run(void *call);

// ga_brought_team is a ga_kernel; the product's plan is a ga_brought_call.
void ga_brought_team(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

// ga_brought_prepare packs B from call->raw on the library thread and returns the library's code.
int ga_brought_prepare(ga_brought_call *call);

#endif
