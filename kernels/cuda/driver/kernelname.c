//go:build cuda

#include "kernelname.h"

#include <stdio.h>
#include <string.h>

// CUstreamCaptureMode and CUgraphNodeType. Relaxed: other work of the thread or the library is not part of
// the stream.
enum { CAPTURE_RELAXED = 2, NODE_KERNEL = 0 };

enum { MOST_NODES = 16 }; // a product takes one to three

enum { CLUSTER_DIMENSION = 4 }; // CUlaunchAttributeID

// describe records the launch of the first kernel.
static void describe(CUgraphNode node, const ga_kernel_node_params *p, ga_cuda_captured *found) {
  const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
  memcpy(found->grid, grid, sizeof grid);
  CUlaunchAttributeValue value;
  memset(&value, 0, sizeof value);
  if (cuGraphKernelNodeGetAttribute(node, CLUSTER_DIMENSION, &value) == CUDA_SUCCESS) {
    const unsigned cluster[3] = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
    if (cluster[0] * cluster[1] * cluster[2] > 1) memcpy(found->cluster, cluster, sizeof cluster);
  }
  // The driver also accepts a library's kernel as a function.
  CUfunction function = p->kern != NULL ? (CUfunction)p->kern : p->func;
  int threads = (int)(p->blockDimX * p->blockDimY * p->blockDimZ), blocks = 0;
  if (cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, p->sharedMemBytes) == CUDA_SUCCESS) found->per_sm = blocks;
}

// append appends the symbol of a node's kernel to text.
static void append(CUgraphNode node, ga_cuda_captured *found, char *text, size_t bytes, size_t *used) {
  int type = -1;
  if (cuGraphNodeGetType(node, &type) != CUDA_SUCCESS || type != NODE_KERNEL) return;
  ga_kernel_node_params p = {0};
  const char *name = NULL;
  if (cuGraphKernelNodeGetParams(node, &p) != CUDA_SUCCESS) return;
  CUresult code = p.kern != NULL ? cuKernelGetName(&name, p.kern) : cuFuncGetName(&name, p.func);
  if (code != CUDA_SUCCESS || name == NULL) return;
  int n = snprintf(text + *used, bytes - *used, "%s\n", name);
  if (n < 0 || (size_t)n >= bytes - *used) {
    text[*used] = 0;
    return;
  }
  *used += (size_t)n;
  if (found->kernels++ == 0) describe(node, &p, found);
}

ga_cuda_captured ga_cuda_kernel_symbols(const ga_cuda_launch *launch, CUstream stream, char *text, size_t bytes) {
  ga_cuda_captured found = {0};
  text[0] = 0;
  if ((found.code = cuStreamBeginCapture(stream, CAPTURE_RELAXED)) != CUDA_SUCCESS) return found;
  for (int i = 0; i < launch->count && found.library == 0; i++)
    if (launch->steps[i].enqueue != NULL) found.library = launch->steps[i].enqueue(launch->steps[i].self, stream);
  CUgraph graph = NULL;
  found.code = cuStreamEndCapture(stream, &graph);
  CUgraphNode nodes[MOST_NODES];
  size_t count = MOST_NODES, used = 0;
  if (found.code == CUDA_SUCCESS && found.library == 0 && graph != NULL && cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS)
    for (size_t i = 0; i < count && i < MOST_NODES; i++) append(nodes[i], &found, text, bytes, &used);
  if (graph != NULL) cuGraphDestroy(graph);
  return found;
}
