// The triple loop on raw B.
#ifndef GEMMAUDIT_NAIVE_H
#define GEMMAUDIT_NAIVE_H

#include "pool.h"

void ga_naive(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

#endif
