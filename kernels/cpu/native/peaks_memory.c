#include <stdlib.h>

#include "peaks_streams.h"

typedef long long v16 __attribute__((vector_size(16)));

GA_READER(read_one, , v16, 1)
GA_READER(read_two, , v16, 2)
GA_READER(read_four, , v16, 4)
GA_COPIER(copy_plain, , v16, GA_STORE, (void)0)

#if defined(__x86_64__)
#include <emmintrin.h>
#define STREAM(p, v) _mm_stream_si128((__m128i *)(void *)(p), (__m128i)(v))
GA_COPIER(copy_past_cache, , v16, STREAM, _mm_sfence())
#endif

static const ga_stream base_streams[] = {
    {"16 bytes, 1 stream", read_one, NULL},
    {"16 bytes, 2 streams", read_two, NULL},
    {"16 bytes, 4 streams", read_four, NULL},
    {"16 bytes, plain stores", NULL, copy_plain},
#if defined(__x86_64__)
    {"16 bytes, stores past the cache", NULL, copy_past_cache},
#endif
};

int ga_streams(ga_stream_set set, const ga_stream **streams) {
  switch (set) {
#if defined(__x86_64__)
    case GA_AVX2_STREAMS: *streams = ga_avx2_streams; return ga_avx2_stream_count;
    case GA_AVX512_STREAMS: *streams = ga_avx512_streams; return ga_avx512_stream_count;
#endif
    case GA_BASE_STREAMS: *streams = base_streams; return (int)(sizeof base_streams / sizeof base_streams[0]);
    default: *streams = NULL; return 0;
  }
}

typedef struct {
  char *p;
  int64_t part;
  int parts;
} touch_job;

static void touch_task(void *arg, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  touch_job *j = arg;
  int64_t share = j->part / nthreads;
  for (int i = 0; i < j->parts; i++) {
    uint64_t *at = (uint64_t *)(void *)(j->p + i * j->part + tid * share);
    // One word per line is enough to place the page; writing all would take as long as a pass.
    for (int64_t w = 0; w < share / 8; w += 8) at[w] = (uint64_t)w * 0x9e3779b97f4a7c15u;
  }
}

void ga_stream_touch(ga_pool *pool, int nthreads, char *p, int64_t part, int parts) {
  touch_job j = {p, part, parts};
  ga_pool_run(pool, nthreads, touch_task, &j);
}

typedef struct {
  const ga_stream *stream;
  char *dst;
  const char *src;
  int64_t part, ahead;
  double *from, *to;
} pass;

static volatile uint64_t kept; // keeps reads from being optimized away

static void pass_task(void *arg, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  pass *p = arg;
  int64_t share = p->part / nthreads, at = tid * share;
  ga_barrier(team);
  p->from[tid] = ga_now();
  uint64_t sum = 0;
  if (p->stream->read != NULL) sum = p->stream->read(p->src + at, share, p->ahead);
  else p->stream->copy(p->dst + at, p->src + at, share, p->ahead);
  p->to[tid] = ga_now();
  if (tid == 0) kept = sum;
}

double ga_stream_part(ga_pool *pool, int nthreads, const ga_stream *s, char *dst, const char *src, int64_t part,
                      int64_t ahead) {
  double *times = calloc(2 * (size_t)nthreads, sizeof(double));
  if (times == NULL) return 0;
  pass p = {s, dst, src, part, ahead, times, times + nthreads};
  ga_pool_run(pool, nthreads, pass_task, &p);
  double first = p.from[0], last = p.to[0];
  for (int i = 1; i < nthreads; i++) {
    if (p.from[i] < first) first = p.from[i];
    if (p.to[i] > last) last = p.to[i];
  }
  free(times);
  return last - first;
}
