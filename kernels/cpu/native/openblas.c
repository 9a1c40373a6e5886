#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "openblas.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef void (*sgemm_fn)(int order, int transa, int transb, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*sbgemm_fn)(int order, int transa, int transb, int m, int n, int k, float alpha, const uint16_t *a,
                          int lda, const uint16_t *b, int ldb, float beta, float *c, int ldc);

// to_bf16 rounds to nearest even and keeps NaN.
static void to_bf16(const float *restrict from, uint16_t *restrict to, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t u;
    memcpy(&u, &from[i], 4);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    to[i] = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16 | 0x40) : rounded);
  }
}

int ga_openblas_run(void *arg) {
  ga_openblas_call *call = arg;
  ga_openblas *lib = call->lib;
  const ga_gemm *g = &call->gemm;
  // Set for each launch: with OpenMP, another library may have changed it.
  ((void (*)(int))lib->set_num_threads)(call->threads);
  int transb = g->b_transposed ? TRANS : NO_TRANS;
  int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb;
  if (g->dtype == GA_FP32) {
    ((sgemm_fn)lib->sgemm)(ROW_MAJOR, NO_TRANS, transb, m, n, k, 1, g->a, lda, g->b, ldb, 0, g->c, (int)g->ldc);
    return 0;
  }
  // sbgemm returns fp32, but a layer needs bf16, so the launch includes rounding.
  ((sbgemm_fn)lib->sbgemm)(ROW_MAJOR, NO_TRANS, transb, m, n, k, 1, g->a, lda, g->b, ldb, 0, call->sums, n);
  for (int64_t i = 0; i < g->m; i++) to_bf16(call->sums + i * g->n, (uint16_t *)g->c + i * g->ldc, g->n);
  return 0;
}

const char *ga_openblas_string(void *function) { return ((const char *(*)(void))function)(); }

void ga_openblas_choose(void *arg) {
  ga_openblas_choice *choice = arg;
  if (choice->core != NULL) setenv("OPENBLAS_CORETYPE", choice->core, 1);
  ((void (*)(void))choice->quit)();
  ((void (*)(void))choice->init)();
  unsetenv("OPENBLAS_CORETYPE");
}
