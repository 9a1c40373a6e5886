//go:build cuda

#include "brought.h"

int ga_cuda_brought_enqueue(void *call, CUstream stream) {
  ga_cuda_brought_call *c = call;
  return c->kernel->enqueue(&c->launch, stream, c->error);
}

int ga_cuda_brought_prepare(void *call, CUstream stream) {
  ga_cuda_brought_call *c = call;
  return c->kernel->prepare(&c->launch.problem, c->raw, c->packed, stream, c->error);
}

int ga_cuda_brought_softmax_enqueue(void *call, CUstream stream) {
  ga_cuda_brought_softmax_call *c = call;
  return c->softmax->enqueue(&c->launch, stream, c->error);
}
