#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cuda.h"

// The slots through which the trampolines jump (trampoline.S).
#define GA_CUDA(name, symbol, parameters) extern void *ga_slot_##name;
#define GA_CUDA_NEEDED GA_CUDA
#include "cuda_functions.h"
#undef GA_CUDA
#undef GA_CUDA_NEEDED

typedef struct {
  const char *symbol;
  void **slot;
  int needed;
} entry;

static const entry table[] = {
#define GA_CUDA(name, symbol, parameters) {symbol, &ga_slot_##name, 0},
#define GA_CUDA_NEEDED(name, symbol, parameters) {symbol, &ga_slot_##name, 1},
#include "cuda_functions.h"
#undef GA_CUDA
#undef GA_CUDA_NEEDED
};

enum { ENTRIES = sizeof table / sizeof table[0] };

// Slots point here before the driver is open, and for functions that it lacks. It takes no arguments: the
// caller cleans up on both architectures.
CUresult ga_cuda_unopened(void) { return CUDA_ERROR_NOT_INITIALIZED; }
static CUresult missing(void) { return CUDA_ERROR_NOT_FOUND; }

// The last is the host's driver in a Windows guest.
static const char *const places[] = {"libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"};

// The oldest driver API that loads binaries of the embedded kernels: within one major version the driver
// loads binaries of every minor one.
enum { LEAST_VERSION = 12000 };

static char reason[768];
static char path[512];
static int broken;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fail_with_code(const char *what, CUresult code, const char *meaning) {
  const char *name = NULL, *text = NULL;
  cuGetErrorName(code, &name);
  cuGetErrorString(code, &text);
  snprintf(reason, sizeof reason, "%s: %s (%s)%s%s", what, text ? text : "unknown error", name ? name : "no name",
           meaning[0] ? "; " : "", meaning);
}

// meaning_of returns advice for the common errors of cuInit.
static const char *meaning_of(CUresult code) {
  switch (code) {
    case CUDA_ERROR_NO_DEVICE: return "there is a driver but no GPU, or CUDA_VISIBLE_DEVICES hides it";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: return "libcuda and the kernel module are of different versions: reboot, or reload the module";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: return "a forward-compatibility libcuda comes first on the library path, and this GPU does not take it";
    case CUDA_ERROR_STUB_LIBRARY: return "the toolkit's stub comes first on the library path";
    case CUDA_ERROR_SYSTEM_NOT_READY: return "nvidia-fabricmanager is not running";
    default: return "";
  }
}

static void open_driver(void) {
  void *library = NULL;
  char first[256] = "";
  for (unsigned i = 0; i < sizeof places / sizeof places[0] && library == NULL; i++) {
    library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL && i == 0) {
      const char *e = dlerror();
      snprintf(first, sizeof first, "%s", e ? e : "unknown error");
    }
  }
  if (library == NULL) {
    snprintf(reason, sizeof reason, "no NVIDIA driver: %s", first);
    return;
  }
  broken = 1; // until it is found to work
  const char *lacking = NULL;
  for (int i = 0; i < ENTRIES; i++) {
    void *f = dlsym(library, table[i].symbol);
    *table[i].slot = f ? f : (void *)missing;
    if (f == NULL && table[i].needed && lacking == NULL) lacking = table[i].symbol;
  }
  CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(library, "cuInit");
  void *known = init ? (void *)init : *table[0].slot;
  Dl_info where;
  if (known != NULL && dladdr(known, &where) && where.dli_fname) snprintf(path, sizeof path, "%s", where.dli_fname);
  if (init == NULL) {
    snprintf(reason, sizeof reason, "%s is no CUDA driver: it has no cuInit", path[0] ? path : places[0]);
    return;
  }
  // Check the version first: an old driver may lack functions.
  int version = 0;
  CUresult code = cuDriverGetVersion(&version);
  if (code == CUDA_SUCCESS && version < LEAST_VERSION) {
    snprintf(reason, sizeof reason, "the driver is for CUDA %d.%d, expected at least %d.%d (driver 525)", version / 1000,
             version % 1000 / 10, LEAST_VERSION / 1000, LEAST_VERSION % 1000 / 10);
    return;
  }
  if (lacking != NULL) {
    snprintf(reason, sizeof reason, "the driver (%s) lacks %s", path, lacking);
    return;
  }
  // Images for GPU machines bring a driver, or a stub, to machines without a GPU.
  code = init(0);
  broken = code != CUDA_SUCCESS && code != CUDA_ERROR_NO_DEVICE && code != CUDA_ERROR_STUB_LIBRARY;
  if (code != CUDA_SUCCESS) fail_with_code("the driver does not start", code, meaning_of(code));
}

const char *ga_cuda_open(void) {
  pthread_once(&once, open_driver);
  return reason[0] ? reason : NULL;
}

int ga_cuda_broken(void) { return broken; }

const char *ga_cuda_path(void) { return path[0] ? path : NULL; }

// gorgonia.org/cu calls cuInit at program start and exits on an error. This one always succeeds; ga_cuda_open
// does the work when a command needs devices.
CUresult cuInit(unsigned int flags) {
  (void)flags;
  return CUDA_SUCCESS;
}
