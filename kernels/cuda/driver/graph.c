//go:build cuda

#include "graph.h"

#include <string.h>

// CUstreamCaptureMode: other work of the process's threads is allowed.
enum { CAPTURE_RELAXED = 2 };

void ga_cuda_capture(const uintptr_t *launches, int64_t nlaunches, CUstream stream, ga_cuda_overlap overlap, CUgraphExec *exec,
                     ga_cuda_span *span) {
  memset(span, 0, sizeof *span);
  span->failed_at = -1;
  *exec = NULL;
  if ((span->code = cuStreamBeginCapture(stream, CAPTURE_RELAXED)) != CUDA_SUCCESS) return;
  for (int64_t i = 0; i < nlaunches && span->failed_at < 0; i++)
    if (!ga_cuda_put((const ga_cuda_launch *)launches[i], stream, overlap, span)) span->failed_at = i;
  // The capture must always end, or the stream becomes unusable.
  CUgraph graph = NULL;
  CUresult code = cuStreamEndCapture(stream, &graph);
  int sound = span->failed_at < 0;
  if (sound) span->code = code;
  if (sound && span->code == CUDA_SUCCESS) span->code = cuGraphInstantiateWithFlags(exec, graph, 0);
  if (sound && span->code == CUDA_SUCCESS) span->code = cuGraphUpload(*exec, stream);
  if (sound && span->code == CUDA_SUCCESS) span->code = cuStreamSynchronize(stream);
  if (graph != NULL) cuGraphDestroy(graph);
  if (*exec != NULL && span->code != CUDA_SUCCESS) {
    cuGraphExecDestroy(*exec);
    *exec = NULL;
  }
}

int ga_cuda_graph_enqueue(void *exec, CUstream stream) { return (int)cuGraphLaunch((CUgraphExec)exec, stream); }
