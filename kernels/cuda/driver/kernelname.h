// What a library launches when it is called.
#ifndef GEMMAUDIT_KERNELNAME_H
#define GEMMAUDIT_KERNELNAME_H

#include "step.h"

// ga_cuda_kernel_symbols captures the library calls of a launch into a graph that never
// runs, and writes the symbols of the kernels in it to text, each followed by a line
// feed. It returns how many there are, 0 where the driver (before 12.3) does not tell.
// The context is current, and the calls have run before.
int ga_cuda_kernel_symbols(const ga_cuda_launch *launch, CUstream stream, char *text, size_t bytes);

#endif
