// Launches captured into one graph.
#ifndef GEMMAUDIT_CUDA_GRAPH_H
#define GEMMAUDIT_CUDA_GRAPH_H

#include "execute.h"

// ga_cuda_capture captures launches, addresses of ga_cuda_launch, in sequence into an executable graph and
// uploads it. Without overlap all edges are plain. On an error *exec is NULL, and span has the details:
// failed_at is the launch that could not be captured, -1 for the graph as a whole. The context must be
// current and the stream idle.
void ga_cuda_capture(const uintptr_t *launches, int64_t nlaunches, CUstream stream, ga_cuda_overlap overlap, CUgraphExec *exec,
                     ga_cuda_span *span);

// ga_cuda_graph_enqueue enqueues an executable graph and returns the driver's code.
int ga_cuda_graph_enqueue(void *exec, CUstream stream);

#endif
