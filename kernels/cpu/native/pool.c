#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pool.h"

#include "execute.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#define ga_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define ga_relax() __asm__ volatile("yield")
#else
#define ga_relax() ((void)0)
#endif

// Polls before a waiting thread sleeps. Within a run they take some 100 us, longer than a launch's imbalance.
// Between runs they are few, because a library's threads may run next. With more threads than CPUs, polling
// delays the awaited thread.
enum { SPINS = 20000, SPINS_BETWEEN = 1000, SPINS_OVERSUBSCRIBED = 50 };

// An event to wait on. The generation counts events; a waiter that saw generation g waits until it changes,
// as in a sense-reversing barrier.
typedef struct {
  _Alignas(64) atomic_uint generation;
  atomic_uint sleepers;
} event;

struct ga_team {
  event released;
  _Alignas(64) atomic_uint arrived;
  unsigned size;
  int spins;
  ga_pool *pool;
};

typedef struct {
  _Alignas(64) ga_pool *pool;
  int tid;
  pthread_t thread;
  void *scratch;
  int64_t preempted;
  double lost;       // off-CPU seconds in the last run
} worker;

struct ga_pool {
  event start;
  _Alignas(64) ga_task task;
  void *arg;
  int active;
  int threads, started, spins;
  int fine; // whether thread CPU time has fine resolution
  int *cpus;
  worker *workers;
  ga_team *teams; // teams[i] has i+1 threads
};

// slept is the time in seconds that this thread has waited for others without using its CPU.
static _Thread_local double slept;

static void event_wait(event *e, unsigned seen, int spins) {
  for (int i = 0; i < spins; i++) {
    if (atomic_load_explicit(&e->generation, memory_order_acquire) != seen) return;
    ga_relax();
  }
#if defined(__linux__)
  double began = ga_now();
  atomic_fetch_add(&e->sleepers, 1);
  while (atomic_load(&e->generation) == seen)
    syscall(SYS_futex, &e->generation, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
  atomic_fetch_sub(&e->sleepers, 1);
  slept += ga_now() - began;
#else
  while (atomic_load_explicit(&e->generation, memory_order_acquire) == seen) sched_yield();
#endif
}

static void event_signal(event *e) {
  atomic_fetch_add(&e->generation, 1);
#if defined(__linux__)
  if (atomic_load(&e->sleepers) != 0)
    syscall(SYS_futex, &e->generation, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
#endif
}

void ga_barrier(ga_team *team) {
  if (team->size == 1) return;
  unsigned seen = atomic_load_explicit(&team->released.generation, memory_order_acquire);
  if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 == team->size) {
    atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
    event_signal(&team->released);
    return;
  }
  event_wait(&team->released, seen, team->spins);
}

static int64_t preemptions(void) {
#if defined(RUSAGE_THREAD)
  struct rusage u;
  if (getrusage(RUSAGE_THREAD, &u) == 0) return u.ru_nivcsw;
#endif
  return 0;
}

static double cpu_seconds(clockid_t of) {
  struct timespec t;
  if (clock_gettime(of, &t) != 0) return 0;
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double ga_process_seconds(void) { return cpu_seconds(CLOCK_PROCESS_CPUTIME_ID); }

int ga_cpu_clock_is_fine(void) {
  // Some systems count thread time in ticks of 1 ms or more, too coarse for a block. The test compares
  // consecutive readings, because these steps do not grow while a thread is off its CPU.
  enum { READINGS = 4096 };
  double last = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  for (int i = 0; i < READINGS; i++) {
    double now = cpu_seconds(CLOCK_THREAD_CPUTIME_ID), step = now - last;
    if (step > 0 && step < 1e-4) return 1;
    last = now;
  }
  return 0;
}

static void run_task(ga_pool *pool, int tid) {
  worker *w = &pool->workers[tid];
  int64_t before = preemptions();
  double wall = ga_now(), cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID), idle = slept;
  pool->task(pool->arg, tid, pool->active, w->scratch, &pool->teams[pool->active - 1]);
  w->lost = ga_now() - wall - (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu) - (slept - idle);
  w->preempted = preemptions() - before;
  ga_barrier(&pool->teams[pool->active - 1]);
}

static void *worker_main(void *arg) {
  worker *w = arg;
  ga_pool *pool = w->pool;
  unsigned seen = 0;
  for (;;) {
    event_wait(&pool->start, seen, pool->spins);
    seen++;
    if (pool->task == NULL) return NULL;
    if (w->tid < pool->active) run_task(pool, w->tid);
    // All workers check out before the next run may change the task.
    ga_barrier(&pool->teams[pool->threads - 1]);
  }
}

#if defined(__linux__)
// pin moves the calling thread to one CPU. Failures are ignored: they add noise but are correct.
static void pin(int cpu) {
  if (cpu < 0) return;
  cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
  if (set == NULL) return;
  size_t size = CPU_ALLOC_SIZE((size_t)cpu + 1);
  CPU_ZERO_S(size, set);
  CPU_SET_S((size_t)cpu, size, set);
  sched_setaffinity(0, size, set);
  CPU_FREE(set);
}
#endif

static void *pinned_worker_main(void *arg) {
#if defined(__linux__)
  worker *w = arg;
  pin(w->pool->cpus[w->tid]);
#endif
  return worker_main(arg);
}

static int allowed_cpus(int **out) {
#if defined(__linux__)
  for (int width = 1024; width <= 1 << 17; width *= 2) {
    cpu_set_t *set = CPU_ALLOC((size_t)width);
    if (set == NULL) break;
    size_t size = CPU_ALLOC_SIZE((size_t)width);
    if (sched_getaffinity(0, size, set) == 0) {
      int count = CPU_COUNT_S(size, set), n = 0;
      *out = malloc(sizeof(int) * (size_t)(count > 0 ? count : 1));
      for (int cpu = 0; *out != NULL && cpu < width && n < count; cpu++)
        if (CPU_ISSET_S((size_t)cpu, size, set)) (*out)[n++] = cpu;
      CPU_FREE(set);
      if (*out != NULL && n > 0) return n;
      free(*out);
      break;
    }
    CPU_FREE(set);
    if (errno != EINVAL) break;
  }
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  if (n < 1) n = 1;
  *out = malloc(sizeof(int) * (size_t)n);
  for (long i = 0; *out != NULL && i < n; i++) (*out)[i] = -1;
  return (int)n;
}

static void *scratch_map(void) {
  // One extra huge page, to align the rest to whole huge pages.
  size_t huge = (size_t)2 << 20;
  char *p = mmap(NULL, GA_SCRATCH_BYTES + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  size_t skip = (huge - (uintptr_t)p % huge) % huge;
  if (skip > 0) munmap(p, skip);
  if (huge - skip > 0) munmap(p + skip + GA_SCRATCH_BYTES, huge - skip);
#if defined(MADV_HUGEPAGE)
  madvise(p + skip, GA_SCRATCH_BYTES, MADV_HUGEPAGE);
#endif
  return p + skip;
}

static void *aligned_zero(size_t count, size_t size) {
  void *p = NULL;
  if (posix_memalign(&p, 64, count * size) != 0) return NULL;
  memset(p, 0, count * size);
  return p;
}

ga_pool *ga_pool_create(int threads, char *err, size_t errlen) {
  int *cpus = NULL;
  int allowed = allowed_cpus(&cpus);
  if (threads <= 0) threads = allowed;
  ga_pool *pool = aligned_zero(1, sizeof *pool);
  if (cpus == NULL || pool == NULL) {
    snprintf(err, errlen, "no memory for a pool of %d threads", threads);
    free(cpus);
    free(pool);
    return NULL;
  }
  pool->threads = threads;
  pool->fine = ga_cpu_clock_is_fine();
  pool->spins = threads > allowed ? SPINS_OVERSUBSCRIBED : SPINS_BETWEEN;
  pool->cpus = malloc(sizeof(int) * (size_t)threads);
  pool->workers = aligned_zero((size_t)threads, sizeof(worker));
  pool->teams = aligned_zero((size_t)threads, sizeof(ga_team));
  pool->started = 1;
  if (pool->cpus == NULL || pool->workers == NULL || pool->teams == NULL) {
    snprintf(err, errlen, "no memory for a pool of %d threads", threads);
    free(cpus);
    ga_pool_destroy(pool);
    return NULL;
  }
  for (int i = 0; i < threads; i++) {
    pool->cpus[i] = cpus[i % allowed];
    pool->teams[i].size = (unsigned)i + 1;
    pool->teams[i].pool = pool;
    pool->teams[i].spins = threads > allowed ? SPINS_OVERSUBSCRIBED : SPINS;
    pool->workers[i].pool = pool;
    pool->workers[i].tid = i;
  }
  free(cpus);
  for (int i = 0; i < threads; i++) {
    pool->workers[i].scratch = scratch_map();
    if (pool->workers[i].scratch == NULL) {
      snprintf(err, errlen, "no memory for %zu bytes of scratch of thread %d", GA_SCRATCH_BYTES, i);
      ga_pool_destroy(pool);
      return NULL;
    }
  }
  for (int i = 1; i < threads; i++) {
    int rc = pthread_create(&pool->workers[i].thread, NULL, pinned_worker_main, &pool->workers[i]);
    if (rc != 0) {
      snprintf(err, errlen, "thread %d of %d can't be started: %s", i, threads, strerror(rc));
      ga_pool_destroy(pool);
      return NULL;
    }
    pool->started++;
  }
  return pool;
}

void ga_pool_destroy(ga_pool *pool) {
  if (pool == NULL) return;
  pool->task = NULL;
  if (pool->started > 1) {
    event_signal(&pool->start);
    for (int i = 1; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
  }
  for (int i = 0; pool->workers != NULL && i < pool->threads; i++)
    if (pool->workers[i].scratch != NULL) munmap(pool->workers[i].scratch, GA_SCRATCH_BYTES);
  free(pool->cpus);
  free(pool->workers);
  free(pool->teams);
  free(pool);
}

int ga_pool_threads(const ga_pool *pool) { return pool->threads; }

ga_team *ga_pool_team(ga_pool *pool, int nthreads) { return &pool->teams[nthreads - 1]; }

void *ga_team_scratch(ga_team *team, int tid) { return team->pool->workers[tid].scratch; }

int64_t ga_pool_preemptions(const ga_pool *pool, int nthreads) {
  int64_t sum = 0;
  for (int i = 0; i < nthreads && i < pool->threads; i++) sum += pool->workers[i].preempted;
  return sum;
}

double ga_pool_lost(const ga_pool *pool, int nthreads) {
  double most = 0;
  if (!pool->fine) return 0;
  for (int i = 0; i < nthreads && i < pool->threads; i++)
    if (pool->workers[i].lost > most) most = pool->workers[i].lost;
  return most;
}

int ga_pool_tells_lost(const ga_pool *pool) { return pool->fine; }

void ga_pool_run(ga_pool *pool, int nthreads, ga_task task, void *arg) {
  if (nthreads < 1) nthreads = 1;
  if (nthreads > pool->threads) nthreads = pool->threads;
#if defined(__linux__)
  // Restores the caller's affinity; otherwise a library's threads would inherit the pin.
  cpu_set_t own;
  int restore = sched_getaffinity(0, sizeof own, &own) == 0;
  if (restore) pin(pool->cpus[0]);
#endif
  pool->task = task;
  pool->arg = arg;
  pool->active = nthreads;
  if (nthreads > 1) event_signal(&pool->start);
  run_task(pool, 0);
  if (nthreads > 1) ga_barrier(&pool->teams[pool->threads - 1]);
#if defined(__linux__)
  if (restore) sched_setaffinity(0, sizeof own, &own);
#endif
}
