// Kernels that are brought as shared libraries (kernels/plugin), as launches.
#ifndef GEMMAUDIT_BROUGHT_H
#define GEMMAUDIT_BROUGHT_H

#include "../../plugin/include/gemmaudit_kernel.h"
#include "launch.h"

// One launch of such a kernel.
typedef struct {
  const gemmaudit_kernel *kernel;
  gemmaudit_launch launch;
  const void *raw; // B as it was given, where each launch packs it to packed; else NULL
  void *packed;
  char error[GEMMAUDIT_ERROR_BYTES];
} ga_brought_call;

// ga_brought_run is a ga_call on a ga_brought_call: what the library returned.
int ga_brought_run(void *call);

// One launch of a softmax, and its ga_call.
typedef struct {
  const gemmaudit_softmax *softmax;
  gemmaudit_softmax_launch launch;
  char error[GEMMAUDIT_ERROR_BYTES];
} ga_brought_softmax_call;

int ga_brought_softmax_run(void *call);

// ga_brought_team is a ga_kernel; the ga_brought_call is the product's plan.
void ga_brought_team(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

// ga_brought_prepare packs B as call->raw gives it, on the library thread. It returns what
// the library did.
int ga_brought_prepare(ga_brought_call *call);

#endif
