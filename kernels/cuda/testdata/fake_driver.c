// A driver without a GPU, for tests: memory is the host's, kernels do nothing, and faults are injected.
// Environment variables:
//
//   FAKE_CUDA_VERSION     result of cuDriverGetVersion, default 12040
//   FAKE_CUDA_DEVICES     number of GPUs, default 1
//   FAKE_CUDA_CAPABILITY  their compute capability × 10, default 90
//   FAKE_CUDA_MODE        their compute mode, default 0
//   FAKE_CUDA_FAIL        "symbol:n:code": the n-th call of a function returns code; with -1 it never returns
//   FAKE_CUDA_PLAIN_EDGES if set, launches that may overlap can't be captured
//   FAKE_CUDA_TRACE       if set, each call's name and count are written to stderr
//
// After a code that makes a context unusable, every call returns it. With -Dname=other the library lacks the
// function of that name.
#include <cuda.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { KINDS = 64 };

// Numbers of launched kernels, in total and when each event was recorded.
static long launched, events, recorded[256];
static struct {
  char name[64];
  long calls;
} kinds[KINDS];

static long number(const char *variable, long otherwise) {
  const char *v = getenv(variable);
  return v && *v ? strtol(v, NULL, 10) : otherwise;
}

static CUresult broken = CUDA_SUCCESS;
static _Thread_local int capturing; // one of several threads is capturing

// call counts a call and returns its injected error.
static CUresult call(const char *name) {
  if (broken != CUDA_SUCCESS) return broken;
  int i = 0;
  while (i < KINDS - 1 && kinds[i].name[0] && strcmp(kinds[i].name, name) != 0) i++;
  snprintf(kinds[i].name, sizeof kinds[i].name, "%s", name);
  long now = ++kinds[i].calls;
  if (getenv("FAKE_CUDA_TRACE")) fprintf(stderr, "calls %s %ld\n", name, now);
  char symbol[64];
  long n, code;
  const char *fail = getenv("FAKE_CUDA_FAIL");
  if (!fail || sscanf(fail, "%63[^:]:%ld:%ld", symbol, &n, &code) != 3) return CUDA_SUCCESS;
  if (strcmp(symbol, name) != 0 || now != n) return CUDA_SUCCESS;
  while (code == -1) pause();
  if ((code >= 700 && code != 701 && code < 720) || code == 214 || code == 999) broken = (CUresult)code;
  return (CUresult)code;
}

// BEGIN ends a function with its injected error.
#define BEGIN                              \
  do {                                     \
    CUresult error = call(__func__);       \
    if (error != CUDA_SUCCESS) return error; \
  } while (0)

// Exported names that differ from the header's.
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemFree cuMemFree_v2
#define cuMemsetD8 cuMemsetD8_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuEventDestroy cuEventDestroy_v2

CUresult cuInit(unsigned int flags) {
  BEGIN;
  return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDriverGetVersion(int *version) {
  BEGIN;
  *version = (int)number("FAKE_CUDA_VERSION", 12040);
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **name) {
  *name = code == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char **text) {
  static char words[32];
  snprintf(words, sizeof words, "fake error %d", (int)code);
  *text = words;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  BEGIN;
  *count = (int)number("FAKE_CUDA_DEVICES", 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  BEGIN;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  BEGIN;
  snprintf(name, (size_t)length, "Fake GPU %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  BEGIN;
  (void)device;
  *bytes = (size_t)1 << 30;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  BEGIN;
  (void)device;
  long capability = number("FAKE_CUDA_CAPABILITY", 90);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = (int)(capability / 10); break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = (int)(capability % 10); break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 227 << 10; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 50 << 20; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1980000; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 3201000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 6144; break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = (int)number("FAKE_CUDA_COOPERATIVE", 1); break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = (int)number("FAKE_CUDA_MODE", 0); break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *id, CUdevice device) {
  BEGIN;
  memset(id, 0xab, sizeof *id);
  ((unsigned char *)id)[15] = (unsigned char)device;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  BEGIN;
  snprintf(id, (size_t)length, "0000:fa:%02x.0", device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  BEGIN;
  *context = (CUcontext)(uintptr_t)(device + 1);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  BEGIN;
  (void)device;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  (void)device;
  broken = CUDA_SUCCESS;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  BEGIN;
  (void)context;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
  BEGIN;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  BEGIN;
  *module = (CUmodule)image;
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  BEGIN;
  (void)module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  BEGIN;
  (void)module;
  *function = (CUfunction)strdup(name);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  BEGIN;
  (void)function;
  (void)attribute;
  (void)value;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  BEGIN;
  (void)function;
  (void)attribute;
  *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *free, size_t *total) {
  BEGIN;
  *free = (size_t)1 << 29;
  *total = (size_t)1 << 30;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  BEGIN;
  if (bytes > (size_t)1 << 30) return CUDA_ERROR_OUT_OF_MEMORY;
  void *p = NULL;
  if (posix_memalign(&p, 256, bytes) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = (CUdeviceptr)(uintptr_t)p;
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  BEGIN;
  free((void *)(uintptr_t)address);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8(CUdeviceptr address, unsigned char value, size_t bytes) {
  BEGIN;
  memset((void *)(uintptr_t)address, value, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  BEGIN;
  memcpy((void *)(uintptr_t)to, from, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  BEGIN;
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  BEGIN;
  (void)stream;
  if (bytes <= 1 << 20) memcpy((void *)to, (const void *)from, bytes); // tests don't read large copies
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags) {
  BEGIN;
  (void)flags;
  *p = calloc(1, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *p, unsigned int flags) {
  BEGIN;
  (void)flags;
  *address = (CUdeviceptr)(uintptr_t)p;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p) {
  BEGIN;
  free(p);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  BEGIN;
  (void)flags;
  static uintptr_t streams;
  *stream = (CUstream)++streams;
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  BEGIN;
  (void)stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  BEGIN;
  (void)stream;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  BEGIN;
  (void)flags;
  if (events + 1 == sizeof recorded / sizeof *recorded) return CUDA_ERROR_OUT_OF_MEMORY;
  *event = (CUevent)(uintptr_t)++events;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  BEGIN;
  (void)event;
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  BEGIN;
  if (getenv("FAKE_CUDA_TRACE")) fprintf(stderr, "stream %d waits for event %d\n", (int)(uintptr_t)stream, (int)(uintptr_t)event);
  return flags == 0 && event != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  BEGIN;
  if (getenv("FAKE_CUDA_TRACE")) fprintf(stderr, "event %d in stream %d\n", (int)(uintptr_t)event, (int)(uintptr_t)stream);
  recorded[(uintptr_t)event] = launched;
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  BEGIN;
  (void)event;
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
  BEGIN;
  if (getenv("FAKE_CUDA_TRACE")) fprintf(stderr, "timed launches %ld\n", recorded[(uintptr_t)to] - recorded[(uintptr_t)from]);
  *ms = 0.5f;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
  BEGIN;
  (void)extra;
  int overlaps = 0, cooperates = 0;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) overlaps = 1;
    if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) cooperates = config->attrs[i].value.cooperative;
  }
  if (getenv("FAKE_CUDA_TRACE")) fprintf(stderr, "launch overlaps %d\nlaunch cooperates %d\n", overlaps, cooperates);
  if (overlaps && capturing && number("FAKE_CUDA_PLAIN_EDGES", 0)) return CUDA_ERROR_NOT_SUPPORTED;
  if (config->gridDimX == 0 || config->blockDimX == 0 || function == NULL || params[0] == NULL) return CUDA_ERROR_INVALID_VALUE;
  launched++;
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, uint32_t rank, void *address, const uint64_t *dims,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  BEGIN;
  (void)type, (void)dims, (void)steps, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  if (((uintptr_t)map & 63) != 0 || ((uintptr_t)address & 15) != 0 || rank != 2 || strides[0] % 16 != 0 || box[0] > 256 || box[1] > 256)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// A captured call is two kernels, one of a library and one of a module, with a memset
// between them.
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#define cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2

CUresult cuStreamBeginCapture(CUstream stream, int mode) {
  BEGIN;
  if (stream == NULL || mode != 2 || capturing) return CUDA_ERROR_INVALID_VALUE;
  capturing = 1;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  capturing = 0;
  BEGIN;
  (void)stream;
  *graph = (CUgraph)&kinds;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
  BEGIN;
  (void)graph;
  for (uintptr_t i = 0; i < 3; i++) nodes[i] = (CUgraphNode)(i + 1);
  *count = 3;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *type) {
  BEGIN;
  *type = node == (CUgraphNode)2 ? 2 : 0;
  return CUDA_SUCCESS;
}

// The first kernel is launched as 8×4 blocks in clusters of two.
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, int attribute, CUlaunchAttributeValue *value) {
  BEGIN;
  value->clusterDim.x = node == (CUgraphNode)1 ? 2 : 1;
  value->clusterDim.y = value->clusterDim.z = 1;
  return attribute == 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
  BEGIN;
  *blocks = 1;
  return function == (CUfunction)&kinds && threads == 384 && shared == 1024 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// cuStreamIsCapturing lets a library on this driver skip its arithmetic.
CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  (void)stream;
  *status = capturing;
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, ga_kernel_node_params *params) {
  BEGIN;
  params->gridDimX = 8, params->gridDimY = 4, params->gridDimZ = 1;
  params->blockDimX = 384, params->blockDimY = params->blockDimZ = 1;
  params->sharedMemBytes = 1024;
  if (node == (CUgraphNode)1) params->kern = &kinds;
  else params->func = (CUfunction)&kinds;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, void *kernel) {
  BEGIN;
  *name = "nvjet_128x256";
  return kernel == &kinds ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
  BEGIN;
  *name = "_ZN8cublasLt6splitKILi32EEEvv";
  return function == (CUfunction)&kinds ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
  BEGIN;
  *exec = (CUgraphExec)&kinds;
  return graph == (CUgraph)&kinds && flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  BEGIN;
  return exec == (CUgraphExec)&kinds && stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  BEGIN;
  return exec == (CUgraphExec)&kinds && stream != NULL && !capturing ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  BEGIN;
  return exec == (CUgraphExec)&kinds ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroy(CUgraph graph) {
  BEGIN;
  return graph == (CUgraph)&kinds ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
