// Blocks of launches, each timed as one sample.
#ifndef GEMMAUDIT_CUDA_EXECUTE_H
#define GEMMAUDIT_CUDA_EXECUTE_H

#include "step.h"

// ga_cuda_stamp is a multiprocessor's counters (support.cu).
typedef struct {
  uint64_t entry, clock, time, seen;
} ga_cuda_stamp;

enum { GA_STAMPS = 1024 };  // maximum number of stamped multiprocessors

// ga_cuda_page is host memory that the device writes to.
typedef struct {
  volatile int32_t flag;  // opens the gates up to that ticket
  int32_t unused;
  struct {
    volatile uint64_t gate[2];  // 1 if it timed out, and ns waited
    ga_cuda_stamp before[GA_STAMPS], after[GA_STAMPS];
  } chunk[2];
} ga_cuda_page;

// ga_cuda_chunk is the events and kernels around a chunk of a block. ticket points into the gate's
// parameters.
typedef struct {
  CUevent begin, end, done;
  const ga_cuda_step *gate, *before, *after;
  int32_t *ticket;
  int taken;  // its times were added to its block, or it has none yet
  int block;  // whose it is
  int whole;  // fully on the stream, including done
  int kernels;  // at most, including those around it
} ga_cuda_chunk;

typedef struct {
  double seconds;  // on the device
  double mhz;      // of the SMs, 0 when unknown
  double held_ns;  // how long the gate held before it timed out, else 0
  CUresult code;   // the driver's code, 0 for success
  int library;     // a library's code, 0 for success
  int64_t failed_at;  // the launch that could not be enqueued, -1 if it failed later
} ga_cuda_span;

enum { GA_BLOCKS = 2 };  // maximum in flight: one runs, one is queued

// ga_cuda_blocks is one device's resources for blocks.
typedef struct {
  CUcontext context;
  CUstream stream;
  ga_cuda_page *page;
  CUevent begin, end;  // for a launch that runs once
  int slots;           // of the stamps in use
  int32_t ticket;
  int next;                      // the next chunk to use
  ga_cuda_chunk chunk[2];        // one is enqueued while the other runs
  ga_cuda_span span[GA_BLOCKS];  // of the blocks in flight
} ga_cuda_blocks;

// ga_cuda_overlap selects which of the overlappable kernels may begin while their predecessor drains.
typedef enum {
  GA_OVERLAP_NONE,    // each waits for the end of its predecessor
  GA_OVERLAP_INSIDE,  // those inside a launch; its first one waits
  GA_OVERLAP_ALL,
} ga_cuda_overlap;

// ga_cuda_put enqueues one launch; 0 means failure, with details in span.
int ga_cuda_put(const ga_cuda_launch *launch, CUstream stream, ga_cuda_overlap overlap, ga_cuda_span *span);

// ga_cuda_start runs launches[i % nlaunches] for i in [0,n) back to back, as the block of that number, after
// those in flight. launches are addresses of ga_cuda_launch. It returns when all are on the stream and only
// earlier blocks delay them. ga_cuda_wait must follow; it waits for that block only, whose span has any
// error.
void ga_cuda_start(ga_cuda_blocks *b, int block, const uintptr_t *launches, int64_t nlaunches, int64_t n, ga_cuda_overlap overlap);
void ga_cuda_wait(ga_cuda_blocks *b, int block);

// ga_cuda_once runs one launch without a gate, after blocks in flight, and waits for it.
void ga_cuda_once(ga_cuda_blocks *b, const ga_cuda_launch *launch, ga_cuda_span *span);

// ga_cuda_ahead enqueues one launch before the next block and returns at once. No block's time includes it.
// The next block reports its errors on the device.
void ga_cuda_ahead(ga_cuda_blocks *b, const ga_cuda_launch *launch, ga_cuda_span *span);

// ga_cuda_copy is a device-to-device copy by the driver.
typedef struct {
  CUdeviceptr dst, src;
  size_t bytes;
} ga_cuda_copy;

// ga_cuda_copy_enqueue enqueues a ga_cuda_copy and returns the driver's code.
int ga_cuda_copy_enqueue(void *copy, CUstream stream);

#endif
