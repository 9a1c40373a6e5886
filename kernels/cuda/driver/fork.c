//go:build cuda

#include "fork.h"

#define TRY(call)                                            \
  do {                                                       \
    CUresult code = (call);                                  \
    if (code != CUDA_SUCCESS) return GA_FORK_DRIVER + (int)code; \
  } while (0)

int ga_cuda_fork_enqueue(void *forked, CUstream stream) {
  const ga_cuda_forked *f = forked;
  const ga_cuda_lanes *on = f->lanes;
  int lanes = f->count < GA_LANES ? f->count : GA_LANES;
  TRY(cuEventRecord(on->fork, stream));
  for (int i = 0; i < lanes; i++) TRY(cuStreamWaitEvent(on->stream[i], on->fork, 0));
  for (int i = 0; i < f->count; i++) {
    ga_cuda_span span = {0};
    if (ga_cuda_put(f->launches[i], on->stream[i % lanes], GA_OVERLAP_NONE, &span)) continue;
    TRY(span.code);
    return span.library;
  }
  for (int i = 0; i < lanes; i++) {
    TRY(cuEventRecord(on->end[i], on->stream[i]));
    TRY(cuStreamWaitEvent(stream, on->end[i], 0));
  }
  return 0;
}
