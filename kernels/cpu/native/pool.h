// The pool: threads that live as long as the device, one per allowed CPU, each
// pinned to its own and each with its own scratch. Whoever calls ga_pool_run is
// thread 0 for its duration; it is pinned like the others meanwhile.
#ifndef GEMMAUDIT_POOL_H
#define GEMMAUDIT_POOL_H

#include "launch.h"

typedef struct ga_pool ga_pool;

// A task is run by nthreads threads at once, each with its tid in [0,nthreads)
// and its own scratch of GA_SCRATCH_BYTES. ga_barrier(team) joins them.
typedef void (*ga_task)(void *arg, int tid, int nthreads, void *scratch, ga_team *team);

// ga_pool_create starts threads-1 workers (threads <= 0: one per allowed CPU).
// On failure it returns NULL and writes the reason to err.
ga_pool *ga_pool_create(int threads, char *err, size_t errlen);

// ga_pool_destroy stops the workers and frees everything. NULL is allowed.
void ga_pool_destroy(ga_pool *pool);

// ga_pool_threads is the number of threads, the caller included.
int ga_pool_threads(const ga_pool *pool);

// ga_pool_run executes task on nthreads threads (capped at the pool's) and
// returns when all are done. Not to be called from two threads at once, nor
// from within a task.
void ga_pool_run(ga_pool *pool, int nthreads, ga_task task, void *arg);

// ga_pool_team is the team of the first nthreads threads, for tasks that run
// parts of themselves on fewer threads than they were given.
ga_team *ga_pool_team(ga_pool *pool, int nthreads);

// ga_team_scratch is the scratch of thread tid, for reductions over threads.
void *ga_team_scratch(ga_team *team, int tid);

// ga_pool_preemptions is how often workers 1..nthreads-1 were taken off their
// CPU against their will during the last ga_pool_run, and thread 0 with them.
int64_t ga_pool_preemptions(const ga_pool *pool, int nthreads);

// ga_pool_lost is the longest, in seconds, that one of the first nthreads threads was kept off its
// CPU against its will during the last ga_pool_run: its wall time less its CPU time, less what
// it waited for the others. 0 where CPU times are told too coarsely, which ga_pool_tells_lost says.
double ga_pool_lost(const ga_pool *pool, int nthreads);
int ga_pool_tells_lost(const ga_pool *pool);

// ga_process_seconds is the CPU time of all threads of the process.
double ga_process_seconds(void);

// ga_cpu_clock_is_fine says whether CPU times of threads are told in steps that are short beside a
// block.
int ga_cpu_clock_is_fine(void);

// ga_share divides count units among parts as evenly as possible: part i gets
// [*from, *to).
static inline void ga_share(int64_t count, int parts, int i, int64_t *from, int64_t *to) {
  int64_t each = count / parts, rest = count % parts;
  *from = each * i + (i < rest ? i : rest);
  *to = *from + each + (i < rest);
}

#endif
