//go:build cuda

#include "kernelname.h"

#include <stdio.h>

// CUstreamCaptureMode and CUgraphNodeType. Relaxed, since what else the thread or the
// library does meanwhile is not part of the stream.
enum { CAPTURE_RELAXED = 2, NODE_KERNEL = 0 };

enum { MOST_NODES = 16 }; // a product takes one to three

// append writes the symbol of a node's kernel behind what is in text already.
static int append(CUgraphNode node, char *text, size_t bytes, size_t *used) {
  int type = -1;
  if (cuGraphNodeGetType(node, &type) != CUDA_SUCCESS || type != NODE_KERNEL) return 0;
  ga_kernel_node_params p = {0};
  const char *name = NULL;
  if (cuGraphKernelNodeGetParams(node, &p) != CUDA_SUCCESS) return 0;
  CUresult code = p.kern != NULL ? cuKernelGetName(&name, p.kern) : cuFuncGetName(&name, p.func);
  if (code != CUDA_SUCCESS || name == NULL) return 0;
  int n = snprintf(text + *used, bytes - *used, "%s\n", name);
  if (n < 0 || (size_t)n >= bytes - *used) {
    text[*used] = 0;
    return 0;
  }
  *used += (size_t)n;
  return 1;
}

int ga_cuda_kernel_symbols(const ga_cuda_launch *launch, CUstream stream, char *text, size_t bytes) {
  text[0] = 0;
  if (cuStreamBeginCapture(stream, CAPTURE_RELAXED) != CUDA_SUCCESS) return 0;
  int status = 0;
  for (int i = 0; i < launch->count && status == 0; i++)
    if (launch->steps[i].enqueue != NULL) status = launch->steps[i].enqueue(launch->steps[i].self, stream);
  CUgraph graph = NULL;
  CUresult end = cuStreamEndCapture(stream, &graph);
  int found = 0;
  CUgraphNode nodes[MOST_NODES];
  size_t count = MOST_NODES, used = 0;
  if (end == CUDA_SUCCESS && status == 0 && graph != NULL && cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS)
    for (size_t i = 0; i < count && i < MOST_NODES; i++) found += append(nodes[i], text, bytes, &used);
  if (graph != NULL) cuGraphDestroy(graph);
  return found;
}
