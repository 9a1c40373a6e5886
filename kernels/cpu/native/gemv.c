// The kernel for few rows, limited by reading the weights once from memory. Each thread streams whole panels
// with a fixed prefetch distance and multiplies all rows of A by a slice of a panel while it is in L1.
//
// With too few panels to balance threads, K is split instead: each thread sums its part of K for all panels.
// After a barrier, the parts are added in thread order.
#include <string.h>

#include "epilogue.h"
#include "tiled.h"

// Words per slice: 16 KiB of a panel fit in L1 with A's part, and make storing the sums negligible.
enum { SLICE_WORDS = 128, MAX_M = 16 };

// The distance covers memory latency (100 ns at 30 GB/s per core is 3 KiB) and crosses the page where
// hardware prefetching stops.
enum { AHEAD_BYTES = 4096 };

// Scratch: a widened slice, the sums of a panel, the sums of all panels when K is split, and A.
#define WIDE_BYTES ((int64_t)SLICE_WORDS * GA_PANEL * 4)
#define ACC_BYTES ((int64_t)MAX_M * GA_PANEL * 4)
#define PARTS_BYTES ((int64_t)2 << 20)
#define A_BYTES ((int64_t)GA_SCRATCH_BYTES - WIDE_BYTES - ACC_BYTES - PARTS_BYTES)

typedef struct {
  const ga_gemm *g;
  const ga_path *path;
  char *wide, *a;
  ga_rows split;
  int64_t a_k0, a_k1;
} few;

static void pack_a(few *s, int64_t k0, int64_t k1) {
  if (s->a_k0 == k0 && s->a_k1 == k1) return;
  s->a_k0 = k0;
  s->a_k1 = k1;
  int64_t words = ga_words(s->path, k1 - k0), size = ga_size(s->g->dtype);
  for (int64_t t = 0; t < s->split.count; t++) {
    int64_t at = ga_row_begin(s->split, t);
    s->path->pack_a((const char *)s->g->a + (at * s->g->lda + k0) * size, s->g->lda, ga_row_count(s->split, t),
                    k1 - k0, words, s->a + ga_tile_bytes(at, words));
  }
}

// panel sums [k0,k1) of one panel into acc, in parts of K that fit in the scratch for A.
static void panel(few *s, const char *b, int64_t k0, int64_t k1, char *acc) {
  const ga_path *path = s->path;
  ga_dtype t = s->g->dtype;
  ga_tile tile = path->direct != NULL ? path->direct : path->tile;
  int parts = path->direct != NULL ? 1 : path->parts;
  int64_t four = 4 * path->group * GA_PANEL * ga_size(t); // four words of packed B
  int64_t step = (int64_t)SLICE_WORDS * path->group;
  int64_t most = A_BYTES / ga_tile_bytes(s->g->m, 1) * path->group / step * step;
  for (int64_t from = k0; from < k1; from += most) {
    int64_t to = from + most < k1 ? from + most : k1;
    pack_a(s, from, to);
    int64_t a_words = ga_words(path, to - from);
    for (int64_t k = from; k < to; k += step) {
      int64_t words = ga_words(path, k + step < to ? step : to - k);
      const char *slice = ga_slice(b, t, k), *multiplied = slice;
      // A single tile prefetches along the stream. Several tiles restart the slice, so each prefetches a part
      // of the next one.
      int64_t bytes = words / 4 * four;
      const char *ahead = slice + (s->split.count == 1 ? AHEAD_BYTES : bytes), *ahead_end = ahead + bytes;
      int64_t fetch = s->split.count == 1 ? four : four / 2 > 256 ? four / 2 : 256;
      if (path->direct == NULL) {
        path->widen_b(slice, words, s->wide);
        multiplied = s->wide;
      }
      for (int64_t i = 0; i < s->split.count; i++) {
        int64_t at = ga_row_begin(s->split, i);
        int rows = ga_row_count(s->split, i);
        int more = ahead < ahead_end;
        const char *a = s->a + ga_tile_bytes(at, a_words) + ga_tile_bytes(rows, (k - from) / path->group);
        for (int part = 0; part < parts; part++)
          tile(rows, words, a, multiplied + part * 64, acc + at * GA_PANEL * 4 + part * 64, k == k0,
               more ? ahead : multiplied, more ? fetch : 0);
        ahead += words / 4 * fetch;
      }
    }
  }
}

static void store_panel(const few *s, int64_t p, const int32_t *sums, char *acc) {
  const ga_gemm *g = s->g;
  ga_columns to = ga_finish(g, acc, g->m, 0, p * GA_PANEL);
  char *c = (char *)g->c + to.first * (g->dtype == GA_INT8 ? 4 : ga_size(g->dtype));
  s->path->store(acc, (int)g->m, to.count, sums == NULL ? NULL : sums + to.first, c, g->ldc);
}

static void add(ga_dtype t, char *acc, const char *part, int64_t count) {
  if (t == GA_INT8) {
    uint32_t *a = (uint32_t *)acc;
    const uint32_t *b = (const uint32_t *)part;
    for (int64_t i = 0; i < count; i++) a[i] += b[i];
    return;
  }
  float *a = (float *)acc;
  const float *b = (const float *)part;
  for (int64_t i = 0; i < count; i++) a[i] += b[i];
}

// divides_k reports whether to split K: if the busiest thread would read 20 % more than its share of panels,
// and its part of K outweighs a barrier.
static int divides_k(const ga_gemm *g, int nthreads) {
  int64_t panels = ga_panels(g->n), busiest = (panels + nthreads - 1) / nthreads * nthreads;
  int64_t part = g->k / nthreads * panels * GA_PANEL * ga_size(g->dtype);
  int64_t sums = panels * g->m * GA_PANEL * 4;
  return nthreads > 1 && busiest * 5 > panels * 6 && part >= 64 << 10 && sums <= PARTS_BYTES;
}

int ga_gemv_parts(const ga_gemm *g, int nthreads) { return divides_k(g, nthreads) ? nthreads : 1; }

void ga_gemv(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  const char *b = ga_packed_b(g, tid, nthreads, team);
  const int32_t *sums = g->dtype == GA_INT8 ? ga_column_sums(b, g->n, g->k) : NULL;
  few s = {.g = g, .path = g->plan, .wide = scratch, .a_k0 = -1};
  char *acc = s.wide + WIDE_BYTES, *parts = acc + ACC_BYTES;
  s.a = parts + PARTS_BYTES;
  s.split = ga_rows_of(g->m, s.path->rows);
  int64_t panels = ga_panels(g->n), stride = ga_panel_bytes(g->dtype, g->k), from, to;

  if (!divides_k(g, nthreads)) {
    ga_share(panels, nthreads, tid, &from, &to);
    for (int64_t p = from; p < to; p++) {
      panel(&s, b + p * stride, 0, g->k, acc);
      store_panel(&s, p, sums, acc);
    }
    return;
  }
  // Parts of K start at multiples of 64, a slice boundary for all types.
  int64_t k0, k1, bytes = g->m * GA_PANEL * 4;
  ga_share((g->k + 63) / 64, nthreads, tid, &k0, &k1);
  k0 *= 64;
  k1 = k1 * 64 < g->k ? k1 * 64 : g->k;
  for (int64_t p = 0; p < panels; p++) panel(&s, b + p * stride, k0, k1, parts + p * bytes);
  ga_barrier(team);
  ga_share(panels, nthreads, tid, &from, &to);
  for (int64_t p = from; p < to; p++) {
    memcpy(acc, (char *)ga_team_scratch(team, 0) + (parts - (char *)scratch) + p * bytes, (size_t)bytes);
    for (int i = 1; i < nthreads; i++)
      add(g->dtype, acc, (char *)ga_team_scratch(team, i) + (parts - (char *)scratch) + p * bytes, g->m * GA_PANEL);
    store_panel(&s, p, sums, acc);
  }
}
