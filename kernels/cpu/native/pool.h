// The thread pool: one pinned thread per allowed CPU, with its own scratch, as long as the device lives. The
// caller of ga_pool_run is thread 0 and pinned during the call.
#ifndef GEMMAUDIT_POOL_H
#define GEMMAUDIT_POOL_H

#include "launch.h"

typedef struct ga_pool ga_pool;

// A task runs on nthreads threads at once, each with its tid in [0,nthreads) and its own scratch of
// GA_SCRATCH_BYTES. ga_barrier(team) synchronizes them.
typedef void (*ga_task)(void *arg, int tid, int nthreads, void *scratch, ga_team *team);

// ga_pool_create starts threads-1 workers (threads <= 0: one thread per allowed CPU). On failure it returns
// NULL and writes the reason to err.
ga_pool *ga_pool_create(int threads, char *err, size_t errlen);

// ga_pool_destroy stops the workers and frees the pool. NULL is allowed.
void ga_pool_destroy(ga_pool *pool);

int ga_pool_threads(const ga_pool *pool);

// ga_pool_run executes task on nthreads threads (at most the pool's) and waits for all. Do not call it
// concurrently or within a task.
void ga_pool_run(ga_pool *pool, int nthreads, ga_task task, void *arg);

// ga_pool_team returns the team of the first nthreads threads, for parts of a task that use fewer threads.
ga_team *ga_pool_team(ga_pool *pool, int nthreads);

// ga_team_scratch returns the scratch of thread tid, for reductions over threads.
void *ga_team_scratch(ga_team *team, int tid);

// ga_pool_preemptions counts involuntary context switches of threads 0 to nthreads-1 in the last ga_pool_run.
int64_t ga_pool_preemptions(const ga_pool *pool, int nthreads);

// ga_pool_lost is the longest involuntary off-CPU time, in seconds, of the first nthreads threads in the last
// ga_pool_run: wall time less CPU time less waits for other threads. It is 0 if ga_pool_tells_lost returns 0,
// because CPU time is too coarse.
double ga_pool_lost(const ga_pool *pool, int nthreads);
int ga_pool_tells_lost(const ga_pool *pool);

double ga_process_seconds(void);

// ga_cpu_clock_is_fine reports whether thread CPU times have a resolution far below a block's length.
int ga_cpu_clock_is_fine(void);

// ga_share divides count units evenly among parts: part i gets [*from, *to).
static inline void ga_share(int64_t count, int parts, int i, int64_t *from, int64_t *to) {
  int64_t each = count / parts, rest = count % parts;
  *from = each * i + (i < rest ? i : rest);
  *to = *from + each + (i < rest);
}

#endif
