#include "peaks.h"

#include <stdlib.h>
#include <string.h>

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#if !defined(__x86_64__)

// Portable units use 16-byte vectors of the architecture's baseline. Ten accumulators hide a latency of five
// cycles at two instructions per cycle.
enum { ACCUMULATORS = 10 };

#if defined(__aarch64__)

static void fma_portable(int64_t turns, const void *data, void *sink) {
  const float *x = data;
  float32x4_t a = vld1q_f32(x), b = vld1q_f32(x + 4), acc[ACCUMULATORS];
  for (int i = 0; i < ACCUMULATORS; i++) acc[i] = vld1q_f32(x + 8 + 4 * i);
  for (int64_t t = 0; t < turns; t++)
    for (int i = 0; i < ACCUMULATORS; i++) acc[i] = vfmaq_f32(acc[i], a, b);
  memcpy(sink, acc, sizeof acc);
}

static void madd_portable(int64_t turns, const void *data, void *sink) {
  const int16_t *x = data;
  int16x4_t a = vld1_s16(x), b = vld1_s16(x + 4);
  int32x4_t acc[ACCUMULATORS] = {0};
  for (int64_t t = 0; t < turns; t++) {
    __asm__ volatile("" : "+w"(a));
    for (int i = 0; i < ACCUMULATORS; i++) acc[i] = vmlal_s16(acc[i], a, b);
  }
  memcpy(sink, acc, sizeof acc);
}

#define FMA_NAME "NEON FMA"
#define MADD_NAME "NEON SMLAL"
enum { MADD_OPERATIONS = 8 };

#else

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));

static void fma_portable(int64_t turns, const void *data, void *sink) {
  v4f acc[ACCUMULATORS], a, b;
  memcpy(&a, data, sizeof a);
  memcpy(&b, (const char *)data + 16, sizeof b);
  memcpy(acc, (const char *)data + 32, sizeof acc);
  for (int64_t t = 0; t < turns; t++)
    for (int i = 0; i < ACCUMULATORS; i++) acc[i] = acc[i] * a + b;
  memcpy(sink, acc, sizeof acc);
}

static void madd_portable(int64_t turns, const void *data, void *sink) {
  v4i acc[ACCUMULATORS], a, b;
  memcpy(&a, data, sizeof a);
  memcpy(&b, (const char *)data + 16, sizeof b);
  memcpy(acc, (const char *)data + 32, sizeof acc);
  for (int64_t t = 0; t < turns; t++)
    for (int i = 0; i < ACCUMULATORS; i++) acc[i] = acc[i] * a + b;
  memcpy(sink, acc, sizeof acc);
}

#define FMA_NAME "vector multiply and add"
#define MADD_NAME "vector integer multiply and add"
enum { MADD_OPERATIONS = 8 };

#endif

static const ga_unit portable_units[GA_UNITS] = {
    [GA_FMA_PORTABLE] = {FMA_NAME, ACCUMULATORS * 8, fma_portable},
    [GA_MADD_PORTABLE] = {MADD_NAME, (double)ACCUMULATORS * MADD_OPERATIONS, madd_portable},
};

#endif

const ga_unit *ga_unit_of(ga_unit_code code) {
  if (code >= GA_UNITS) return NULL;
#if defined(__x86_64__)
  const ga_unit *u = &ga_amd64_units[code];
#else
  const ga_unit *u = &portable_units[code];
#endif
  return u->run != NULL ? u : NULL;
}

// Operands are small floats and bytes of all values, for realistic switching activity and power. Adjacent
// 16-bit values are like the halves of a float, so the same bytes serve bf16 and int8.
static void fill_operands(uint32_t *data, size_t words) {
  uint32_t x = 0x9e3779b9u;
  for (size_t i = 0; i < words; i++) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    // Exponents of 2^-15 to 2^-1 in both halves keep sums and products bounded.
    data[i] = (x & 0x877f877fu) | 0x38003800u;
  }
}

typedef struct {
  const ga_unit *unit;
  int64_t turns;
  double *seconds, *mhz;
} probe;

static void probe_task(void *arg, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)nthreads;
  probe *p = arg;
  uint32_t *data = scratch;
  fill_operands(data, 2048);
  char *sink = (char *)scratch + 8192;
  ga_barrier(team);
  double start = ga_now();
  p->unit->run(p->turns, data, sink);
  p->seconds[tid] = ga_now() - start;
  p->mhz[tid] = ga_core_mhz();
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void ga_probe_unit(ga_pool *pool, int nthreads, const ga_unit *unit, int64_t turns, double *rate, double *mhz) {
  *rate = *mhz = 0;
  double *results = calloc(2 * (size_t)nthreads, sizeof(double));
  if (results == NULL) return;
  probe p = {unit, turns, results, results + nthreads};
  ga_pool_run(pool, nthreads, probe_task, &p);
  for (int i = 0; i < nthreads; i++)
    if (p.seconds[i] > 0) *rate += unit->operations * (double)turns / p.seconds[i];
  qsort(p.mhz, (size_t)nthreads, sizeof(double), by_value);
  *mhz = p.mhz[nthreads / 2];
  free(results);
}
