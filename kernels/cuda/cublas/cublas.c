//go:build cuda

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cublas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cublas_library.h"

// The used functions of cublas_api.h.
#define CUBLAS_FUNCTIONS(F) \
  F(Create_v2, (void **handle)) \
  F(Destroy_v2, (void *handle)) \
  F(GetProperty, (int which, int *value)) \
  F(SetStream_v2, (void *handle, void *stream)) \
  F(SetWorkspace_v2, (void *handle, void *workspace, size_t bytes)) \
  F(SetMathMode, (void *handle, int mode)) \
  F(GemmEx, (void *handle, int transa, int transb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, \
             const void *b, int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)) \
  F(GemmStridedBatchedEx, (void *handle, int transa, int transb, int m, int n, int k, const void *alpha, const void *a, int a_type, \
                           int lda, long long stride_a, const void *b, int b_type, int ldb, long long stride_b, const void *beta, \
                           void *c, int c_type, int ldc, long long stride_c, int count, int compute, int algorithm))

// From 12.5 on.
#define CUBLAS_OPTIONAL(F) \
  F(GemmGroupedBatchedEx, (void *handle, const int *transa, const int *transb, const int *m, const int *n, const int *k, const void *alpha, \
                           const void *const *a, int a_type, const int *lda, const void *const *b, int b_type, const int *ldb, \
                           const void *beta, void *const *c, int c_type, const int *ldc, int groups, const int *group_size, int compute))

struct ga_cublas {
  ga_blas_about about;
#define MEMBER(name, parameters) int(*name) parameters;
  CUBLAS_FUNCTIONS(MEMBER)
  CUBLAS_OPTIONAL(MEMBER)
#undef MEMBER
};

struct ga_cublas_session {
  const ga_cublas *lib;
  void *handle, *stream, *workspace;
  size_t bytes;
  int has_stream;
};

const char *ga_blas_status(int status) {
  switch (status) {
    case 0: return "CUBLAS_STATUS_SUCCESS";
    case 1: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3: return "CUBLAS_STATUS_ALLOC_FAILED";
    case 7: return "CUBLAS_STATUS_INVALID_VALUE";
    case 8: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case 11: return "CUBLAS_STATUS_MAPPING_ERROR";
    case 13: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 14: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case GA_BLAS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case 16: return "CUBLAS_STATUS_LICENSE_ERROR";
    default: return "an unknown status";
  }
}

int ga_blas_open(const char *name, const ga_blas_function *functions, int (**property)(int, int *), ga_blas_about *about, char *err) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    const char *why = dlerror();
    snprintf(err, GA_BLAS_ERROR, "%s", why != NULL ? why : "dlopen gave no reason");
    return -1;
  }
  for (const ga_blas_function *f = functions; f->symbol != NULL; f++) {
    void *address = dlsym(handle, f->symbol);
    if (address == NULL && !f->optional) {
      snprintf(err, GA_BLAS_ERROR, "%s has no %s", name, f->symbol);
      return -1;
    }
    memcpy(f->member, &address, sizeof address);
  }
  // libraryPropertyType: major, minor, patch.
  for (int i = 0; i < 3; i++) {
    if ((*property)(i, &about->version[i]) != 0) {
      snprintf(err, GA_BLAS_ERROR, "%s does not tell its version", name);
      return -1;
    }
  }
  Dl_info where;
  if (dladdr((void *)*property, &where) && where.dli_fname) snprintf(about->path, sizeof about->path, "%s", where.dli_fname);
  about->handle = handle;
  // Searches the library, then its dependencies.
  void *lt = dlsym(handle, "cublasLtGetProperty");
  if (lt != NULL && dladdr(lt, &where) && where.dli_fname) snprintf(about->lt_path, sizeof about->lt_path, "%s", where.dli_fname);
  return 0;
}

ga_cublas *ga_cublas_open(const char *name, char *err) {
  ga_cublas *lib = calloc(1, sizeof *lib);
#define ENTRY(function, parameters) {"cublas" #function, &lib->function, 0},
#define OPTIONAL(function, parameters) {"cublas" #function, &lib->function, 1},
  const ga_blas_function functions[] = {CUBLAS_FUNCTIONS(ENTRY) CUBLAS_OPTIONAL(OPTIONAL){NULL, NULL, 0}};
#undef ENTRY
#undef OPTIONAL
  if (ga_blas_open(name, functions, &lib->GetProperty, &lib->about, err) == 0) return lib;
  free(lib);
  return NULL;
}

const ga_blas_about *ga_cublas_about(const ga_cublas *lib) { return &lib->about; }

ga_cublas_session *ga_cublas_session_new(ga_cublas *lib, CUdeviceptr workspace, size_t bytes, int math_mode, int *status) {
  ga_cublas_session *s = calloc(1, sizeof *s);
  *s = (ga_cublas_session){.lib = lib, .workspace = (void *)workspace, .bytes = bytes};
  *status = lib->Create_v2(&s->handle);
  if (*status == 0 && (*status = lib->SetMathMode(s->handle, math_mode)) != 0) lib->Destroy_v2(s->handle);
  if (*status != 0) {
    free(s);
    return NULL;
  }
  return s;
}

void ga_cublas_session_free(ga_cublas_session *s) {
  if (s == NULL) return;
  s->lib->Destroy_v2(s->handle);
  free(s);
}

static const float one = 1, zero = 0;
static const int32_t integer_one = 1, integer_zero = 0;

const void *ga_blas_one(int scale) { return scale == R_32I ? (const void *)&integer_one : &one; }
const void *ga_blas_zero(int scale) { return scale == R_32I ? (const void *)&integer_zero : &zero; }

// cublasGemmAlgo_t: the heuristic chooses.
enum { ALGO_DEFAULT = -1 };

static int use_stream(ga_cublas_session *s, CUstream stream) {
  if (s->has_stream && s->stream == stream) return 0;
  // Set the stream first: it resets the workspace to the library's own.
  int status = s->lib->SetStream_v2(s->handle, stream);
  if (status == 0) status = s->lib->SetWorkspace_v2(s->handle, s->workspace, s->bytes);
  if (status != 0) return status;
  s->stream = stream;
  s->has_stream = 1;
  return 0;
}

int ga_cublas_enqueue(void *call, CUstream stream) {
  const ga_cublas_call *p = call;
  const ga_blas_gemm *g = &p->gemm;
  ga_cublas_session *s = p->on;
  int status = use_stream(s, stream);
  if (status != 0) return status;
  if (g->products > 0)
    return s->lib->GemmStridedBatchedEx(s->handle, g->b_transposed, 0, (int)g->m, (int)g->n, (int)g->k, ga_blas_one(g->scale),
                                        (const void *)p->b, g->in, (int)g->ldb, g->stride_b, (const void *)p->a, g->in, (int)g->lda,
                                        g->stride_a, ga_blas_zero(g->scale), (void *)p->c, g->out, (int)g->ldc, g->stride_c,
                                        (int)g->products, g->compute, ALGO_DEFAULT);
  return s->lib->GemmEx(s->handle, g->b_transposed, 0, (int)g->m, (int)g->n, (int)g->k, ga_blas_one(g->scale), (const void *)p->b, g->in,
                        (int)g->ldb, (const void *)p->a, g->in, (int)g->lda, ga_blas_zero(g->scale), (void *)p->c, g->out, (int)g->ldc,
                        g->compute, ALGO_DEFAULT);
}

int ga_cublas_has_grouped(const ga_cublas *lib) { return lib->GemmGroupedBatchedEx != NULL; }

// The library takes an array of each size, although groups differ in n alone.
struct ga_cublas_grouped {
  ga_cublas_session *on;
  ga_blas_gemm gemm;
  CUdeviceptr pointers;
  int groups;
  const float *alpha, *beta;
  const int *transposed, *plain, *m, *n, *k, *ldb, *lda, *ldc, *single;
  int values[];
};

enum { GROUPED_ARRAYS = 11 };

static const int *filled(int *at, int groups, int value) {
  for (int i = 0; i < groups; i++) at[i] = value;
  return at;
}

ga_cublas_grouped *ga_cublas_grouped_new(ga_cublas_session *on, const ga_blas_gemm *gemm, int groups, const int *rows, CUdeviceptr pointers) {
  ga_cublas_grouped *p = calloc(1, sizeof *p + (size_t)groups * GROUPED_ARRAYS * sizeof(int));
  if (p == NULL) return NULL;
  int *at = p->values;
  p->on = on;
  p->gemm = *gemm;
  p->pointers = pointers;
  p->groups = groups;
  p->n = memcpy(at, rows, (size_t)groups * sizeof(int));
  p->transposed = filled(at += groups, groups, gemm->b_transposed);
  p->plain = filled(at += groups, groups, 0);
  p->m = filled(at += groups, groups, (int)gemm->m);
  p->k = filled(at += groups, groups, (int)gemm->k);
  p->ldb = filled(at += groups, groups, (int)gemm->ldb);
  p->lda = filled(at += groups, groups, (int)gemm->lda);
  p->ldc = filled(at += groups, groups, (int)gemm->ldc);
  p->single = filled(at += groups, groups, 1);
  int bits;
  memcpy(&bits, &one, sizeof bits);
  p->alpha = (const float *)filled(at += groups, groups, bits);
  p->beta = (const float *)filled(at += groups, groups, 0);
  return p;
}

int ga_cublas_grouped_enqueue(void *call, CUstream stream) {
  const ga_cublas_grouped *p = call;
  const ga_blas_gemm *g = &p->gemm;
  int status = use_stream(p->on, stream);
  if (status != 0) return status;
  const void *const *pointers = (const void *const *)p->pointers;
  return p->on->lib->GemmGroupedBatchedEx(p->on->handle, p->transposed, p->plain, p->m, p->n, p->k, p->alpha, pointers, g->in, p->ldb,
                                          pointers + p->groups, g->in, p->lda, p->beta, (void *const *)pointers + 2 * p->groups, g->out,
                                          p->ldc, p->groups, p->single, g->compute);
}
