#include "copy.h"

#include "pool.h"

#include <string.h>

enum { LINE = 64 };

void ga_copy_kernel(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  int64_t from, to;
  ga_share((g->k + LINE - 1) / LINE, nthreads, tid, &from, &to);
  from *= LINE;
  to = to * LINE < g->k ? to * LINE : g->k;
  if (from < to) memcpy((char *)g->c + from, (const char *)g->a + from, (size_t)(to - from));
}
