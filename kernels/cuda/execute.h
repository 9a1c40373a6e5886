// Blocks of launches: what one sample times.
#ifndef GEMMAUDIT_CUDA_EXECUTE_H
#define GEMMAUDIT_CUDA_EXECUTE_H

#include "step.h"

// ga_cuda_stamp is a multiprocessor's counters (support.cu).
typedef struct {
  uint64_t entry, clock, time, seen;
} ga_cuda_stamp;

enum { GA_STAMPS = 1024 };  // multiprocessors that are stamped at most

// ga_cuda_page is host memory that the device writes to.
typedef struct {
  volatile int32_t flag;  // opens the gates up to that ticket
  int32_t unused;
  struct {
    volatile uint64_t gate[2];  // 1 when it opened by itself, ns waited
    ga_cuda_stamp before[GA_STAMPS], after[GA_STAMPS];
  } chunk[2];
} ga_cuda_page;

// ga_cuda_chunk is what stands around a chunk of a block: events, and kernels. Ticket
// is where the gate's parameters hold it.
typedef struct {
  CUevent begin, end, done;
  const ga_cuda_step *gate, *before, *after;
  int32_t *ticket;
} ga_cuda_chunk;

// ga_cuda_blocks is what blocks of one device need.
typedef struct {
  CUcontext context;
  CUstream stream;
  ga_cuda_page *page;
  int slots;  // of the stamps in use
  int32_t ticket;
  ga_cuda_chunk chunk[2];  // of which one is put together while the other runs
} ga_cuda_blocks;

typedef struct {
  double seconds;  // on the device
  double mhz;      // of the SMs, 0 when unknown
  double held_ns;  // how long the gate held when it opened by itself, else 0
  CUresult code;   // what the driver returned, 0 for success
  int library;     // what a library returned, 0 for success
  int64_t failed_at;  // the launch that could not be enqueued, -1 when it failed later
  int last;           // the chunk that was put on the stream last
} ga_cuda_span;

// ga_cuda_overlap says which kernels may begin while the one before them drains, of those
// that can.
typedef enum {
  GA_OVERLAP_NONE,    // none: each waits for the end of the one before it
  GA_OVERLAP_INSIDE,  // those inside of a launch; its first one waits
  GA_OVERLAP_ALL,
} ga_cuda_overlap;

// ga_cuda_put puts one launch on a stream; 0 means that something failed, which span
// tells.
int ga_cuda_put(const ga_cuda_launch *launch, CUstream stream, ga_cuda_overlap overlap, ga_cuda_span *span);

// ga_cuda_start has the device run launches[i % nlaunches] for i in [0,n) back to back.
// launches are addresses of ga_cuda_launch. It returns when all of them are on the stream
// and nothing holds them back. ga_cuda_wait must follow, with the same span, before anything
// else is put on the stream; what went wrong is known then.
void ga_cuda_start(ga_cuda_blocks *b, const uintptr_t *launches, int64_t nlaunches, int64_t n, ga_cuda_overlap overlap,
                   ga_cuda_span *span);
void ga_cuda_wait(ga_cuda_blocks *b, ga_cuda_span *span);

// ga_cuda_once runs one launch with nothing to hide what it takes to launch it, and
// waits for it.
void ga_cuda_once(ga_cuda_blocks *b, const ga_cuda_launch *launch, ga_cuda_span *span);

// ga_cuda_copy is a copy from device to device by the driver, which knows the card.
typedef struct {
  CUdeviceptr dst, src;
  size_t bytes;
} ga_cuda_copy;

// ga_cuda_copy_enqueue puts a ga_cuda_copy on a stream and returns the driver's code.
int ga_cuda_copy_enqueue(void *copy, CUstream stream);

#endif
