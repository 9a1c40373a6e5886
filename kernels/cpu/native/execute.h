// Blocks of launches: what one sample times.
#ifndef GEMMAUDIT_EXECUTE_H
#define GEMMAUDIT_EXECUTE_H

#include "pool.h"

typedef struct {
  double seconds;     // from the first launch's start to the last one's end
  double mhz;         // clock of the first core, 0 when it can't be told
  int64_t preempted;  // involuntary context switches of the threads inside
  double lost;        // seconds in which threads were kept off their CPUs, or the process off all
  double suspended;   // seconds for which the machine slept
  int failed;         // what a library's call returned, 0 for success
  int64_t failed_at;  // the launch that failed
  int64_t done;       // launches that have run
} ga_span;

// ga_execute runs launches[i % nlaunches] for i in [0,n) back to back. Between two of
// them it ends once *stop is not 0, which another thread may set; NULL is never.
void ga_execute(ga_pool *pool, const ga_launch *launches, int64_t nlaunches, int64_t n, const int32_t *stop, ga_span *span);

// ga_core_mhz times a chain of dependent additions of known length on the
// calling core: about 10 us. 0 where the instruction set is unknown.
double ga_core_mhz(void);

// ga_now is a steady clock in seconds.
double ga_now(void);

#endif
