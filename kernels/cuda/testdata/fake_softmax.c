// A softmax library for tests on a fake driver, whose memory is the host's: it computes at once instead of
// enqueueing. With -DWRONG it omits the last column of a sum; with -DFAILS its launches fail.
#include <math.h>
#include <stdio.h>

#include "gemmaudit_kernel.h"

static int supports(const gemmaudit_softmax_problem *p, char *error) {
  if (p->dtype == GEMMAUDIT_FP32 && p->threads == 0 && p->ordinal == 0) return 0;
  snprintf(error, GEMMAUDIT_ERROR_BYTES, "it computes only fp32");
  return 1;
}

static int enqueue(const gemmaudit_softmax_launch *l, void *stream, char *error) {
  const gemmaudit_softmax_problem *p = &l->problem;
#ifdef FAILS
  stream = NULL;
#endif
  if (stream == NULL) {
    snprintf(error, GEMMAUDIT_ERROR_BYTES, "it does not want to");
    return 9;
  }
  for (int64_t row = 0; row < p->rows; row++) {
    const float *in = (const float *)l->in + row * p->columns;
    float *out = (float *)l->out + row * p->columns;
    int64_t seen = p->queries == 0 ? p->columns : row % p->queries + p->columns - p->queries + 1, last = seen;
#ifdef WRONG
    last--;
#endif
    double top = -INFINITY, sum = 0;
    int bad = 0;
    for (int64_t i = 0; i < seen; i++) {
      bad |= isnan(in[i]);
      if (in[i] * (double)p->scale > top) top = in[i] * (double)p->scale;
    }
    for (int64_t i = 0; i < last; i++) sum += exp(in[i] * (double)p->scale - top);
    for (int64_t i = 0; i < p->columns; i++) {
      double z = in[i] * (double)p->scale - top;
      if (i >= seen) out[i] = p->log ? -INFINITY : 0;
      else if (bad || isinf(top)) out[i] = NAN;
      else out[i] = (float)(p->log ? z - log(sum) : exp(z) / sum);
    }
  }
  return 0;
}

static const gemmaudit_softmax description = {
    GEMMAUDIT_SOFTMAX_ABI, GEMMAUDIT_CUDA, "mine", "exponentials in C", supports, NULL, enqueue,
};

const gemmaudit_softmax *gemmaudit_softmax_get(void) { return &description; }
