// Blocks of launches, each timed as one sample.
#ifndef GEMMAUDIT_EXECUTE_H
#define GEMMAUDIT_EXECUTE_H

#include "pool.h"

typedef struct {
  double seconds;     // from the first start to the last end
  double mhz;         // clock of the first core, 0 if unknown
  int64_t preempted;  // involuntary context switches of the threads
  double lost;        // off-CPU seconds of threads, or of the whole process
  double suspended;   // seconds of system sleep
  int failed;         // error code of a library call, 0 for success
  int64_t failed_at;
  int64_t done;
} ga_span;

// ga_execute runs launches[i % nlaunches] for i in [0,n) back to back. It stops between launches if another
// thread sets *stop; stop may be NULL.
void ga_execute(ga_pool *pool, const ga_launch *launches, int64_t nlaunches, int64_t n, const int32_t *stop, ga_span *span);

// ga_core_mhz measures the calling core's clock in about 10 us, with a chain of dependent additions. It
// returns 0 on other architectures than x86-64 and arm64.
double ga_core_mhz(void);

// ga_now returns a monotonic clock in seconds.
double ga_now(void);

#endif
