#include "sequence.h"

#include <stdlib.h>

ga_sequence *ga_sequence_new(int64_t count) {
  ga_sequence *s = calloc(1, sizeof *s + (size_t)count * sizeof s->launches[0]);
  if (s != NULL) s->count = count;
  return s;
}

void ga_sequence_set(ga_sequence *s, int64_t i, const ga_launch *launch) { s->launches[i] = *launch; }

void ga_sequence_kernel(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  const ga_sequence *s = g->plan;
  for (int64_t i = 0; i < s->count; i++) {
    // The next product reuses the scratch.
    if (i > 0) ga_barrier(team);
    s->launches[i].kernel(&s->launches[i].gemm, tid, nthreads, scratch, team);
  }
}

int ga_sequence_call(void *sequence) {
  const ga_sequence *s = sequence;
  for (int64_t i = 0; i < s->count; i++) {
    int rc = s->launches[i].call(s->launches[i].arg);
    if (rc != 0) return rc;
  }
  return 0;
}
