// Launches captured into one graph.
#ifndef GEMMAUDIT_CUDA_GRAPH_H
#define GEMMAUDIT_CUDA_GRAPH_H

#include "execute.h"

// ga_cuda_capture captures launches, addresses of ga_cuda_launch, one after the other into
// an executable graph and uploads it. Without overlap all edges are plain ones. What went
// wrong is in span: failed_at names the launch that could not be captured, -1 the graph
// as a whole; *exec is NULL then. The context is current, and the stream idle.
void ga_cuda_capture(const uintptr_t *launches, int64_t nlaunches, CUstream stream, ga_cuda_overlap overlap, CUgraphExec *exec,
                     ga_cuda_span *span);

// ga_cuda_graph_enqueue puts an executable graph on a stream and returns the driver's code.
int ga_cuda_graph_enqueue(void *exec, CUstream stream);

#endif
