//go:build cuda

#include "execute.h"

#include <string.h>

// A stream queues about a thousand launches. The next one blocks until the first has ended, which deadlocks
// behind a closed gate. Blocks are therefore divided into chunks of at most this size, including the kernels
// around them, and the chunks' times are summed. Two chunks fit: one is enqueued while the previous one runs.
enum { CHUNK = 480 };

// The minimum time between compared counters, which tick in steps of up to a microsecond.
static const double least_ns = 20e3;

static CUresult enqueue_kernel(const ga_cuda_step *s, CUstream stream, int overlap) {
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config = {
      .gridDimX = s->grid[0], .gridDimY = s->grid[1], .gridDimZ = s->grid[2],
      .blockDimX = s->block[0], .blockDimY = s->block[1], .blockDimZ = s->block[2],
      .sharedMemBytes = s->shared, .hStream = stream, .attrs = attributes,
  };
  if (s->cluster[0] != 0) {
    CUlaunchAttribute *a = &attributes[config.numAttrs++];
    memset(a, 0, sizeof *a);
    a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a->value.clusterDim.x = s->cluster[0];
    a->value.clusterDim.y = s->cluster[1];
    a->value.clusterDim.z = s->cluster[2];
  }
  if (s->overlap && overlap) {
    CUlaunchAttribute *a = &attributes[config.numAttrs++];
    memset(a, 0, sizeof *a);
    a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a->value.programmaticStreamSerializationAllowed = 1;
  } else if (s->cooperative) {
    // The driver then rejects a grid that does not fit, and starts all of it or none. Overlapped launches
    // don't need this: their predecessor ends independently.
    CUlaunchAttribute *a = &attributes[config.numAttrs++];
    memset(a, 0, sizeof *a);
    a->id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    a->value.cooperative = 1;
  }
  void *params[] = {s->params};
  return cuLaunchKernelEx(&config, s->function, params, NULL);
}

int ga_cuda_put(const ga_cuda_launch *l, CUstream stream, ga_cuda_overlap overlap, ga_cuda_span *span) {
  for (int i = 0; i < l->count; i++) {
    const ga_cuda_step *s = &l->steps[i];
    int may = overlap == GA_OVERLAP_ALL || (overlap == GA_OVERLAP_INSIDE && i > 0);
    if (s->enqueue == NULL) span->code = enqueue_kernel(s, stream, may);
    else span->library = s->enqueue(s->self, stream);
    if (span->code != CUDA_SUCCESS || span->library != 0) return 0;
  }
  return 1;
}

// median_mhz returns the median over multiprocessors of cycles ÷ time between two stamps, or 0 if no
// multiprocessor has both.
static double median_mhz(const ga_cuda_stamp *before, const ga_cuda_stamp *after, int slots) {
  double mhz[GA_STAMPS];
  int n = 0;
  for (int i = 0; i < slots; i++) {
    const ga_cuda_stamp *a = &before[i], *b = &after[i];
    if (!a->seen || !b->seen || b->time <= a->time) continue;
    double ns = (double)(b->time - a->time);
    if (ns < least_ns) continue;
    double v = (double)(b->clock - a->clock) / ns * 1e3;
    int at = n++;
    for (; at > 0 && mhz[at - 1] > v; at--) mhz[at] = mhz[at - 1];
    mhz[at] = v;
  }
  return n == 0 ? 0 : n % 2 ? mhz[n / 2] : (mhz[n / 2 - 1] + mhz[n / 2]) / 2;
}

static int sound(const ga_cuda_span *span) { return span->code == CUDA_SUCCESS && span->library == 0; }

// After a failure the stream gets no more work.
#define TRY(call) \
  if (sound(span)) span->code = (call)

// put enqueues launches [from, to) behind a gate and opens it. Launches enqueued before a failure still run.
static void put(ga_cuda_blocks *b, int which, const uintptr_t *launches, int64_t nlaunches, int64_t from, int64_t to,
                ga_cuda_overlap overlap, ga_cuda_span *span) {
  ga_cuda_chunk *c = &b->chunk[which];
  ga_cuda_page *page = b->page;
  memset(page->chunk[which].before, 0, (size_t)b->slots * sizeof(ga_cuda_stamp));
  memset(page->chunk[which].after, 0, (size_t)b->slots * sizeof(ga_cuda_stamp));
  page->chunk[which].gate[0] = page->chunk[which].gate[1] = 0;
  *c->ticket = ++b->ticket;
  TRY(enqueue_kernel(c->gate, b->stream, 0));
  TRY(enqueue_kernel(c->before, b->stream, 0));
  TRY(cuEventRecord(c->begin, b->stream));
  int64_t at = from % nlaunches;
  for (int64_t i = from; i < to && sound(span); i++) {
    if (!ga_cuda_put((const ga_cuda_launch *)launches[at], b->stream, overlap, span)) span->failed_at = i;
    if (++at == nlaunches) at = 0;
  }
  TRY(cuEventRecord(c->end, b->stream));
  TRY(enqueue_kernel(c->after, b->stream, 0));
  TRY(cuEventRecord(c->done, b->stream));
  c->taken = 0;
  c->whole = sound(span);
  __atomic_store_n(&page->flag, b->ticket, __ATOMIC_SEQ_CST);
}

// take adds the times of a completed chunk.
static void take(ga_cuda_blocks *b, int which, ga_cuda_span *span) {
  const ga_cuda_chunk *c = &b->chunk[which];
  ga_cuda_page *page = b->page;
  float ms = 0;
  TRY(cuEventElapsedTime(&ms, c->begin, c->end));
  if (!sound(span)) return;
  double seconds = ms * 1e-3, mhz = median_mhz(page->chunk[which].before, page->chunk[which].after, b->slots);
  // Weighted by time; a chunk too short for a clock has almost no weight.
  if (mhz > 0) span->mhz = (span->mhz * span->seconds + mhz * seconds) / (span->seconds + seconds);
  span->seconds += seconds;
  if (page->chunk[which].gate[0] != 0) span->held_ns += (double)page->chunk[which].gate[1];
}

// finish records the result of waiting for the stream.
static void finish(CUresult end, ga_cuda_span *span) {
  if (end == CUDA_SUCCESS) return;
  if (sound(span)) span->failed_at = -1;
  span->code = end;  // the cause of any other failure
}

// settle waits for the end of a chunk and adds its times to its block. With an end event, it does not wait
// for the next block on the stream.
static void settle(ga_cuda_blocks *b, int which) {
  ga_cuda_chunk *c = &b->chunk[which];
  if (c->taken) return;
  c->taken = 1;
  ga_cuda_span *span = &b->span[c->block];
  finish(c->whole ? cuEventSynchronize(c->done) : cuStreamSynchronize(b->stream), span);
  take(b, which, span);
}

void ga_cuda_start(ga_cuda_blocks *b, int block, const uintptr_t *launches, int64_t nlaunches, int64_t n, ga_cuda_overlap overlap) {
  ga_cuda_span *span = &b->span[block];
  memset(span, 0, sizeof *span);
  span->failed_at = -1;
  if ((span->code = cuCtxSetCurrent(b->context)) != CUDA_SUCCESS) return;
  for (int64_t from = 0; from < n && sound(span);) {
    int64_t to = from;
    int kernels = 3;
    for (; to < n; to++) {
      int more = ((const ga_cuda_launch *)launches[to % nlaunches])->launches;
      if (kernels + more > CHUNK && to > from) break;
      kernels += more;
    }
    int which = b->next;
    settle(b, which);  // the one before the last: the last runs while this one is enqueued
    // A launch may have more kernels than a chunk.
    if (kernels + b->chunk[which ^ 1].kernels > 2 * CHUNK) settle(b, which ^ 1);
    if (!sound(span)) break;
    b->chunk[which].kernels = kernels;
    b->chunk[which].block = block;
    put(b, which, launches, nlaunches, from, to, overlap, span);
    b->next ^= 1;
    from = to;
  }
}

void ga_cuda_wait(ga_cuda_blocks *b, int block) {
  ga_cuda_span *span = &b->span[block];
  // Wait for running work in any case: its memory may be freed after this.
  CUresult current = cuCtxSetCurrent(b->context);
  if (current != CUDA_SUCCESS && sound(span)) {
    span->failed_at = -1;
    span->code = current;
  }
  for (int i = 0; i < 2; i++) {
    int which = b->next ^ i;
    if (b->chunk[which].block == block) settle(b, which);
  }
}

void ga_cuda_once(ga_cuda_blocks *b, const ga_cuda_launch *launch, ga_cuda_span *span) {
  memset(span, 0, sizeof *span);
  span->failed_at = -1;
  if ((span->code = cuCtxSetCurrent(b->context)) != CUDA_SUCCESS) return;
  if (!b->chunk[0].taken || !b->chunk[1].taken) finish(cuStreamSynchronize(b->stream), span);
  TRY(cuEventRecord(b->begin, b->stream));
  if (sound(span) && !ga_cuda_put(launch, b->stream, GA_OVERLAP_ALL, span)) span->failed_at = 0;
  TRY(cuEventRecord(b->end, b->stream));
  finish(cuStreamSynchronize(b->stream), span);
  float ms = 0;
  TRY(cuEventElapsedTime(&ms, b->begin, b->end));
  span->seconds = ms * 1e-3;
}

void ga_cuda_ahead(ga_cuda_blocks *b, const ga_cuda_launch *launch, ga_cuda_span *span) {
  memset(span, 0, sizeof *span);
  span->failed_at = -1;
  if ((span->code = cuCtxSetCurrent(b->context)) != CUDA_SUCCESS) return;
  if (!ga_cuda_put(launch, b->stream, GA_OVERLAP_NONE, span)) span->failed_at = 0;
}

#undef TRY

int ga_cuda_copy_enqueue(void *copy, CUstream stream) {
  const ga_cuda_copy *c = copy;
  return (int)cuMemcpyDtoDAsync(c->dst, c->src, c->bytes, stream);
}
