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
  int taken;  // its times were added to those of its block, or there are none yet
  int block;  // whose it is
  int whole;  // all of it is on the stream, done included
} ga_cuda_chunk;

typedef struct {
  double seconds;  // on the device
  double mhz;      // of the SMs, 0 when unknown
  double held_ns;  // how long the gate held when it opened by itself, else 0
  CUresult code;   // what the driver returned, 0 for success
  int library;     // what a library returned, 0 for success
  int64_t failed_at;  // the launch that could not be enqueued, -1 when it failed later
} ga_cuda_span;

enum { GA_BLOCKS = 2 };  // in flight at most: one runs, one is behind it on the stream

// ga_cuda_blocks is what blocks of one device need.
typedef struct {
  CUcontext context;
  CUstream stream;
  ga_cuda_page *page;
  CUevent begin, end;  // of a launch that runs once
  int slots;           // of the stamps in use
  int32_t ticket;
  int next;                      // the chunk to be used next
  ga_cuda_chunk chunk[2];        // of which one is put together while the other runs
  ga_cuda_span span[GA_BLOCKS];  // of the blocks in flight
} ga_cuda_blocks;

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

// ga_cuda_start has the device run launches[i % nlaunches] for i in [0,n) back to back, as
// the block of that number, after those in flight. launches are addresses of ga_cuda_launch. It
// returns when all of them are on the stream and nothing but earlier blocks holds them back.
// ga_cuda_wait must follow; it waits for that block alone, and what went wrong is in its span.
void ga_cuda_start(ga_cuda_blocks *b, int block, const uintptr_t *launches, int64_t nlaunches, int64_t n, ga_cuda_overlap overlap);
void ga_cuda_wait(ga_cuda_blocks *b, int block);

// ga_cuda_once runs one launch with nothing to hide what it takes to launch it, and
// waits for it. Blocks in flight end before.
void ga_cuda_once(ga_cuda_blocks *b, const ga_cuda_launch *launch, ga_cuda_span *span);

// ga_cuda_ahead puts one launch on the stream ahead of the next block and returns at once. No
// block's time has anything of it. What goes wrong on the device is told by the next block.
void ga_cuda_ahead(ga_cuda_blocks *b, const ga_cuda_launch *launch, ga_cuda_span *span);

// ga_cuda_copy is a copy from device to device by the driver, which knows the card.
typedef struct {
  CUdeviceptr dst, src;
  size_t bytes;
} ga_cuda_copy;

// ga_cuda_copy_enqueue puts a ga_cuda_copy on a stream and returns the driver's code.
int ga_cuda_copy_enqueue(void *copy, CUstream stream);

#endif
