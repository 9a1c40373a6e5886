#include "brought.h"

#include "dl.h"

static int prepare(ga_brought_call *c) {
  return c->kernel->prepare(&c->launch.problem, c->raw, c->packed, NULL, c->error);
}

int ga_brought_run(void *arg) {
  ga_brought_call *c = arg;
  if (c->raw != NULL) {
    int rc = prepare(c);
    if (rc != 0) return rc;
  }
  return c->kernel->run(&c->launch, c->error);
}

int ga_brought_softmax_run(void *arg) {
  ga_brought_softmax_call *c = arg;
  return c->softmax->run(&c->launch, c->error);
}

static void barrier(const gemmaudit_team *team) { ga_barrier(team->host); }

void ga_brought_team(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  const ga_brought_call *c = g->plan;
  gemmaudit_team mine = {tid, nthreads, barrier, team};
  c->kernel->run_team(&c->launch, &mine);
}

typedef struct {
  ga_brought_call *call;
  int rc;
} request;

static void serve(void *arg) {
  request *r = arg;
  r->rc = prepare(r->call);
}

int ga_brought_prepare(ga_brought_call *call) {
  request r = {call, 0};
  ga_library_run(serve, &r);
  return r.rc;
}
