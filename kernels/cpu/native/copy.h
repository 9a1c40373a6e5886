// Copying as a launch.
#ifndef GEMMAUDIT_COPY_H
#define GEMMAUDIT_COPY_H

#include "launch.h"

// ga_copy_kernel is a ga_kernel that copies g->k bytes from g->a to g->c without overlap.
void ga_copy_kernel(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

#endif
