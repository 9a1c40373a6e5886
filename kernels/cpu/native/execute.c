#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "execute.h"

#include "dl.h"

#include <time.h>

double ga_now(void) {
  struct timespec t;
#if defined(CLOCK_MONOTONIC_RAW)
  clock_gettime(CLOCK_MONOTONIC_RAW, &t);
#else
  clock_gettime(CLOCK_MONOTONIC, &t);
#endif
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A register addition takes one cycle on all supported cores. Recent cores eliminate additions of immediates.
enum { CHAIN = 64, CHAIN_TURNS = 220 };

static uint64_t chain(uint64_t x, uint64_t y) {
#if defined(__x86_64__)
  for (int i = 0; i < CHAIN_TURNS; i++)
    __asm__ volatile(".rept 64\n\tadd %1, %0\n\t.endr" : "+r"(x) : "r"(y) : "cc");
#elif defined(__aarch64__)
  for (int i = 0; i < CHAIN_TURNS; i++)
    __asm__ volatile(".rept 64\n\tadd %0, %0, %1\n\t.endr" : "+r"(x) : "r"(y));
#else
  (void)y;
#endif
  return x;
}

double ga_core_mhz(void) {
#if defined(__x86_64__) || defined(__aarch64__)
  // The faster of two chains counts, because an interrupt would look like a slow clock.
  double best = 0;
  for (int i = 0; i < 2; i++) {
    double start = ga_now();
    volatile uint64_t sink = chain((uint64_t)i, 3);
    double seconds = ga_now() - start;
    (void)sink;
    double mhz = seconds > 0 ? CHAIN * CHAIN_TURNS / seconds * 1e-6 : 0;
    if (mhz > best) best = mhz;
  }
  return best;
#else
  return 0;
#endif
}

typedef struct {
  ga_pool *pool;
  const ga_launch *launches;
  int64_t nlaunches, from, to;
  const int32_t *stop;
  ga_span *span;
} block;

static int stopped(const block *b) { return b->stop != NULL && __atomic_load_n(b->stop, __ATOMIC_RELAXED) != 0; }

static void run_kernels(void *arg, int tid, int nthreads, void *scratch, ga_team *team) {
  block *b = arg;
  (void)nthreads;
  double before = 0, start = 0;
  if (tid == 0) before = ga_core_mhz();
  ga_barrier(team);
  if (tid == 0) start = ga_now();
  int64_t at = b->from % b->nlaunches;
  int64_t i = b->from;
  for (; i < __atomic_load_n(&b->to, __ATOMIC_RELAXED); i++) {
    const ga_launch *l = &b->launches[at];
    if (++at == b->nlaunches) at = 0;
    if (tid < l->threads) l->kernel(&l->gemm, tid, l->threads, scratch, ga_pool_team(b->pool, l->threads));
    // All threads must stop at the same launch. No thread has passed this one, and a thread that sees the new
    // end early still runs it.
    if (tid == 0 && stopped(b)) __atomic_store_n(&b->to, i + 1, __ATOMIC_RELAXED);
    // The next launch may read this one's output and reuse the scratch.
    ga_barrier(team);
  }
  if (tid == 0) {
    b->span->seconds = ga_now() - start;
    b->span->done = i - b->from;
    double after = ga_core_mhz();
    b->span->mhz = (before + after) / 2;
  }
}

// LEAST_SLEEP, in seconds, exceeds the time between two clock readings.
#define LEAST_SLEEP 1e-2

static double seconds_between(struct timespec from, struct timespec to) {
  return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

// asleep returns the machine's sleep time since boot: CLOCK_BOOTTIME continues during sleep.
static double asleep(void) {
#if defined(CLOCK_BOOTTIME)
  struct timespec before, on, after;
  // Retries if an interruption separates the readings.
  for (int tries = 0; tries < 16; tries++) {
    if (clock_gettime(CLOCK_MONOTONIC, &before) != 0 || clock_gettime(CLOCK_BOOTTIME, &on) != 0) return 0;
    clock_gettime(CLOCK_MONOTONIC, &after);
    if (seconds_between(before, after) < LEAST_SLEEP / 4) break;
  }
  return seconds_between(before, on);
#else
  return 0;
#endif
}

// run_calls runs a block with library calls on the library thread. Our workers sleep between launches and
// this thread is not pinned, which leaves the CPUs to the library's threads.
static void run_calls(void *arg) {
  block *b = arg;
  ga_span *span = b->span;
  double before = ga_core_mhz();
  double start = ga_now(), cpu = ga_process_seconds();
  int64_t i = b->from;
  for (; i < b->to && !stopped(b); i++) {
    const ga_launch *l = &b->launches[i % b->nlaunches];
    if (l->call != NULL) {
      int rc = l->call(l->arg);
      if (rc != 0) {
        span->failed = rc;
        span->failed_at = i;
        break;
      }
      continue;
    }
    ga_span inner = {0};
    block one = {b->pool, l, 1, 0, 1, NULL, &inner};
    ga_pool_run(b->pool, l->threads, run_kernels, &one);
    span->preempted += ga_pool_preemptions(b->pool, l->threads);
    span->lost += ga_pool_lost(b->pool, l->threads);
  }
  span->seconds = ga_now() - start;
  // Waits among a library's threads are unknown, but time without any running thread of the process is lost.
  double lost = span->seconds - (ga_process_seconds() - cpu);
  if (lost > span->lost && ga_pool_tells_lost(b->pool)) span->lost = lost;
  span->done = i - b->from;
  span->mhz = (before + ga_core_mhz()) / 2;
}

void ga_execute(ga_pool *pool, const ga_launch *launches, int64_t nlaunches, int64_t n, const int32_t *stop, ga_span *span) {
  *span = (ga_span){0};
  double slept = asleep();
  int threads = 1, calls = 0;
  for (int64_t i = 0; i < nlaunches; i++) {
    if (launches[i].call != NULL) calls++;
    else if (launches[i].threads > threads) threads = launches[i].threads;
  }
  if (calls == 0) {
    block b = {pool, launches, nlaunches, 0, n, stop, span};
    ga_pool_run(pool, threads, run_kernels, &b);
    span->preempted = ga_pool_preemptions(pool, threads);
    span->lost = ga_pool_lost(pool, threads);
  } else {
    block b = {pool, launches, nlaunches, 0, n, stop, span};
    ga_library_run(run_calls, &b);
  }
  slept = asleep() - slept;
  span->suspended = slept > LEAST_SLEEP ? slept : 0;
}
