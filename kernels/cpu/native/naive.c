#include "naive.h"

#include <string.h>

#include "convert.h"
#include "epilogue.h"

// Each output is one dot product over raw B, without blocking or reuse: the baseline for the other kernels.

static float element(const void *p, ga_dtype t, int64_t i) {
  switch (t) {
    case GA_FP16: return ga_fp16_to_float(((const uint16_t *)p)[i]);
    case GA_BF16: return ga_bf16_to_float(((const uint16_t *)p)[i]);
    default: return ((const float *)p)[i];
  }
}

static float dot(const ga_gemm *g, int64_t i, int64_t j) {
  int64_t along = g->b_transposed ? 1 : g->ldb, at = g->b_transposed ? j * g->ldb : j;
  float sum = 0;
  for (int64_t l = 0; l < g->k; l++)
    sum += element(g->a, g->dtype, i * g->lda + l) * element(g->b, g->dtype, at + l * along);
  return sum;
}

// output computes column j of C.
static void output(const ga_gemm *g, int64_t i, int64_t j) {
  int64_t c = i * g->ldc + j;
  if (g->dtype == GA_INT8) {
    int64_t along = g->b_transposed ? 1 : g->ldb, at = g->b_transposed ? j * g->ldb : j;
    const int8_t *a = (const int8_t *)g->a + i * g->lda, *b = (const int8_t *)g->b + at;
    uint32_t sum = 0; // wraps around like vector instructions
    for (int64_t l = 0; l < g->k; l++) sum += (uint32_t)(a[l] * b[l * along]);
    ((int32_t *)g->c)[c] = (int32_t)sum;
    return;
  }
  float sums[GA_PANEL];
  if (g->epilogue != NULL && g->epilogue->activation == GA_GATED) {
    j = j / GA_GATES * GA_PANEL + j % GA_GATES;
    sums[GA_GATES] = dot(g, i, j + GA_GATES);
  }
  sums[0] = dot(g, i, j);
  if (g->epilogue != NULL) g->epilogue->apply(g, sums, 1, GA_PANEL, i, j, 1);
  float sum = sums[0];
  switch (g->dtype) {
    case GA_FP16: ((uint16_t *)g->c)[c] = ga_float_to_fp16(sum); break;
    case GA_BF16: ((uint16_t *)g->c)[c] = ga_float_to_bf16(sum); break;
    default: ((float *)g->c)[c] = sum;
  }
}

void ga_naive(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  int64_t from, to, columns = g->epilogue != NULL ? g->epilogue->columns : g->n;
  if (g->m >= nthreads) {
    ga_share(g->m, nthreads, tid, &from, &to);
    for (int64_t i = from; i < to; i++)
      for (int64_t j = 0; j < columns; j++) output(g, i, j);
    return;
  }
  ga_share(columns, nthreads, tid, &from, &to);
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = from; j < to; j++) output(g, i, j);
}
