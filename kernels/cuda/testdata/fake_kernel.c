// A kernel library for tests on a fake driver, whose memory is the host's: it packs B, and computes at once
// instead of enqueueing. With -DWRONG it omits the last step of K; with -DFAILS its launches fail; with -DRAW
// it does not pack.
#include <stdio.h>
#include <string.h>

#include "gemmaudit_kernel.h"

static int supports(const gemmaudit_problem *p, char *error) {
  if (p->dtype == GEMMAUDIT_FP32 && p->threads == 0 && p->ordinal == 0) return 0;
  snprintf(error, GEMMAUDIT_ERROR_BYTES, "it computes only fp32");
  return 1;
}

static int64_t workspace_bytes(const gemmaudit_problem *p) { return p->n * (int64_t)sizeof(float); }

static float at(const gemmaudit_problem *p, const float *b, int64_t k, int64_t j) {
  return p->b_transposed ? b[j * p->ldb + k] : b[k * p->ldb + j];
}

#ifndef RAW
static int64_t packed_bytes(const gemmaudit_problem *p) { return p->n * p->k * (int64_t)sizeof(float); }

static int prepare(const gemmaudit_problem *p, const void *b, void *packed, void *stream, char *error) {
  if (stream == NULL) {
    snprintf(error, GEMMAUDIT_ERROR_BYTES, "there is no stream");
    return 1;
  }
  for (int64_t k = 0; k < p->k; k++)
    for (int64_t j = 0; j < p->n; j++) ((float *)packed)[k * p->n + j] = at(p, b, k, j);
  return 0;
}
#define B(k, j) (((const float *)l->b)[(k) * p->n + (j)])
#else
#define B(k, j) at(p, l->b, k, j)
#endif

static int enqueue(const gemmaudit_launch *l, void *stream, char *error) {
  const gemmaudit_problem *p = &l->problem;
  int64_t last = p->k;
#ifdef WRONG
  last--;
#endif
#ifdef FAILS
  stream = NULL;
#endif
  if (stream == NULL) {
    snprintf(error, GEMMAUDIT_ERROR_BYTES, "it does not want to");
    return 9;
  }
  float *row = l->workspace;
  for (int64_t i = 0; i < p->m; i++) {
    memset(row, 0, (size_t)p->n * sizeof *row);
    for (int64_t k = 0; k < last; k++)
      for (int64_t j = 0; j < p->n; j++) row[j] += ((const float *)l->a)[i * p->lda + k] * B(k, j);
    memcpy((float *)l->c + i * p->ldc, row, (size_t)p->n * sizeof *row);
  }
  return 0;
}

const gemmaudit_kernel *gemmaudit_kernel_get(void) {
  static const gemmaudit_kernel k = {
      .abi = GEMMAUDIT_KERNEL_ABI,
      .device = GEMMAUDIT_CUDA,
      .name = "mine",
      .supports = supports,
      .workspace_bytes = workspace_bytes,
#ifndef RAW
      .packed_bytes = packed_bytes,
      .prepare = prepare,
#endif
      .enqueue = enqueue,
  };
  return &k;
}
