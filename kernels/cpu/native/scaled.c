#include "scaled.h"

#include <string.h>

#include "convert.h"
#include "tiled.h"

static void portable_fp8_to_float(const uint8_t *codes, int64_t n, void *out) {
  for (int64_t i = 0; i < n; i++) ((float *)out)[i] = ga_fp8_to_float(codes[i]);
}

// The decoders of each path for bf16.
static const ga_scaled_form forms[] = {
    {&ga_portable_paths[GA_BF16], portable_fp8_to_float},
#if defined(__x86_64__)
    {&ga_avx2_paths[GA_BF16], ga_avx2_fp8_to_float},
    {&ga_avx512_paths[GA_BF16], ga_avx512_fp8_to_float},
    {&ga_avx512_bf16_path, ga_avx512_fp8_to_bf16},
#endif
};

const ga_scaled_form *ga_scaled_form_for(unsigned isa) {
  const ga_scaled_form *f = forms;
  while (f->path != ga_path_for(GA_BF16, isa)) f++;
  return f;
}

// SLICE is the most k that are decoded at a time: 8 or 16 KiB of a panel, which stay in L1.
enum { SLICE = 128 };

// Scratch: a decoded slice, rows of A as bf16, A packed, and for each row the sums of a group, and of all groups.
#define WIDE_BYTES ((int64_t)SLICE * GA_PANEL * 4)
#define ROWS_BYTES ((int64_t)GA_MAX_ROWS * SLICE * 2)
#define A_BYTES ((int64_t)6 << 20)
#define SUM_BYTES (((int64_t)GA_SCRATCH_BYTES - WIDE_BYTES - ROWS_BYTES - A_BYTES) / 2 / 64 * 64)

static inline const ga_scaled_form *form_of(const ga_gemm *g) { return g->weights.form; }

static inline int64_t groups_of(const ga_gemm *g) { return (g->k + g->weights.group - 1) / g->weights.group; }

// group_k is the k of a group, the last of which may be shorter.
static inline int64_t group_k(const ga_gemm *g, int64_t group) {
  int64_t from = group * g->weights.group, rest = g->k - from;
  return rest < g->weights.group ? rest : g->weights.group;
}

// A group's words are those of its slices.
static inline int64_t group_words(const ga_gemm *g, int64_t k) {
  const ga_path *path = form_of(g)->path;
  int64_t whole = k / SLICE;
  return whole * (SLICE / path->group) + ga_words(path, k - whole * SLICE);
}

static inline int64_t all_words(const ga_gemm *g) {
  int64_t groups = groups_of(g);
  return (groups - 1) * group_words(g, g->weights.group) + group_words(g, group_k(g, groups - 1));
}

static inline int64_t panel_bytes(const ga_gemm *g) { return all_words(g) * form_of(g)->path->group * GA_PANEL; }

int64_t ga_scaled_bytes(const ga_gemm *g) {
  return ga_panels(g->n) * (panel_bytes(g) + groups_of(g) * GA_PANEL * (int64_t)sizeof(float));
}

int ga_scaled_fits(const ga_gemm *g) { return all_words(g) * 4 <= A_BYTES; }

typedef struct {
  const ga_gemm *g;
  const uint8_t *codes;
  const float *scales;
  char *packed;
} pack_job;

static void pack_panel(const pack_job *job, int64_t p) {
  const ga_gemm *g = job->g;
  int64_t word_k = form_of(g)->path->group, groups = groups_of(g), columns = g->n - p * GA_PANEL;
  uint8_t *to = (uint8_t *)job->packed + p * panel_bytes(g);
  float *scales = (float *)(job->packed + ga_panels(g->n) * panel_bytes(g)) + p * groups * GA_PANEL;
  memset(to, 0, (size_t)panel_bytes(g));
  for (int64_t at = 0, group = 0; group < groups; group++) {
    int64_t k0 = group * g->weights.group, k = group_k(g, group);
    for (int64_t c = 0; c < GA_PANEL; c++) {
      int64_t n = p * GA_PANEL + c;
      scales[group * GA_PANEL + c] = c < columns ? job->scales[n / g->weights.columns * groups + group] : 0;
      if (c >= columns) continue;
      const uint8_t *from = job->codes + n * g->k + k0;
      for (int64_t i = 0; i < k; i++) to[at + (i / word_k * GA_PANEL + c) * word_k + i % word_k] = from[i];
    }
    at += group_words(g, k) * GA_PANEL * word_k;
  }
}

static void pack_share(void *arg, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  const pack_job *job = arg;
  int64_t from, to;
  ga_share(ga_panels(job->g->n), nthreads, tid, &from, &to);
  for (int64_t p = from; p < to; p++) pack_panel(job, p);
}

void ga_scaled_pack(ga_pool *pool, const ga_gemm *g, const void *codes, const void *scales, void *packed) {
  pack_job job = {g, codes, scales, packed};
  ga_pool_run(pool, ga_pool_threads(pool), pack_share, &job);
}

// block is the rows that are multiplied with each panel, and their tiles.
typedef struct {
  const ga_gemm *g;
  char *wide, *part, *rows, *a, *acc;
  int64_t row;
  ga_rows split;
} block;

// pack_rows packs a block of A: for each tile, its slices in turn.
static void pack_rows(const block *s) {
  const ga_gemm *g = s->g;
  const ga_path *path = form_of(g)->path;
  int64_t words = all_words(g), groups = groups_of(g);
  for (int64_t t = 0; t < s->split.count; t++) {
    int64_t at = ga_row_begin(s->split, t);
    int rows = ga_row_count(s->split, t);
    char *to = s->a + at * words * 4;
    for (int64_t group = 0; group < groups; group++) {
      int64_t k0 = group * g->weights.group, end = k0 + group_k(g, group);
      for (; k0 < end; k0 += SLICE) {
        int64_t k = end - k0 < SLICE ? end - k0 : SLICE, w = ga_words(path, k);
        for (int r = 0; r < rows; r++) {
          const uint8_t *from = (const uint8_t *)g->a + (s->row + at + r) * g->lda + k0;
          uint16_t *out = (uint16_t *)s->rows + r * SLICE;
          for (int64_t i = 0; i < k; i++) out[i] = (uint16_t)(ga_bits_of(ga_fp8_to_float(from[i])) >> 16); // exact
        }
        path->pack_a(s->rows, SLICE, rows, k, w, to);
        to += w * rows * 4;
      }
    }
  }
}

// promote adds the sums of a group, times both scales.
static void promote(const block *s, int64_t group, int64_t at, int rows, const char *parts, const float *scales) {
  const ga_gemm *g = s->g;
  for (int r = 0; r < rows; r++) {
    float *acc = (float *)s->acc + (at + r) * GA_PANEL;
    const float *part = (const float *)parts + r * GA_PANEL;
    float scale = g->a_scales[group * g->a_scales_ld + s->row + at + r];
    if (group == 0)
      for (int c = 0; c < GA_PANEL; c++) acc[c] = part[c] * (scale * scales[c]);
    else
      for (int c = 0; c < GA_PANEL; c++) acc[c] += part[c] * (scale * scales[c]);
  }
}

static void multiply_panel(const block *s, int64_t p) {
  const ga_gemm *g = s->g;
  const ga_scaled_form *form = form_of(g);
  const ga_path *path = form->path;
  int64_t words = all_words(g), groups = groups_of(g), before = 0;
  const uint8_t *codes = (const uint8_t *)g->b + p * panel_bytes(g);
  const float *scales = (const float *)((const char *)g->b + ga_panels(g->n) * panel_bytes(g)) + p * groups * GA_PANEL;
  for (int64_t group = 0; group < groups; group++) {
    int64_t k = group_k(g, group);
    int single = k <= SLICE; // slice: its sums stay in L1
    for (int64_t k0 = 0; k0 < k; k0 += SLICE) {
      int64_t w = ga_words(path, k - k0 < SLICE ? k - k0 : SLICE);
      form->decode(codes, w * GA_PANEL * path->group, s->wide);
      for (int64_t t = 0; t < s->split.count; t++) {
        int64_t at = ga_row_begin(s->split, t);
        int rows = ga_row_count(s->split, t);
        const char *a = s->a + at * words * 4 + before * rows * 4;
        char *part = single ? s->part : s->part + at * GA_PANEL * 4;
        for (int half = 0; half < path->parts; half++)
          path->tile(rows, w, a, s->wide + half * 64, part + half * 64, k0 == 0, s->wide, 0);
        if (k0 + SLICE >= k) promote(s, group, at, rows, part, scales + group * GA_PANEL);
      }
      before += w;
      codes += w * GA_PANEL * path->group;
    }
  }
  int64_t col = p * GA_PANEL, cols = g->n - col < GA_PANEL ? g->n - col : GA_PANEL;
  for (int64_t t = 0; t < s->split.count; t++) {
    int64_t at = ga_row_begin(s->split, t);
    path->store(s->acc + at * GA_PANEL * 4, ga_row_count(s->split, t), cols, NULL,
                (uint16_t *)g->c + (s->row + at) * g->ldc + col, g->ldc);
  }
}

void ga_scaled(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)team;
  const ga_path *path = form_of(g)->path;
  block s = {.g = g, .wide = scratch};
  s.part = s.wide + WIDE_BYTES;
  s.acc = s.part + SUM_BYTES;
  s.a = s.acc + SUM_BYTES;
  s.rows = s.a + A_BYTES;
  int64_t most = A_BYTES / (all_words(g) * 4), sums = SUM_BYTES / (GA_PANEL * 4);
  if (sums < most) most = sums;
  if (most > path->rows) most = most / path->rows * path->rows;
  int64_t panels = ga_panels(g->n), blocks = (g->m + most - 1) / most;
  if (panels < nthreads && blocks < nthreads) { // too few panels: share rows
    blocks = nthreads < g->m ? nthreads : g->m;
    int64_t need = (g->m + most - 1) / most;
    if (blocks < need) blocks = need;
  }
  int64_t from, to, packed = -1;
  ga_share(blocks * panels, nthreads, tid, &from, &to);
  for (int64_t i = from; i < to; i++) {
    if (i / panels != packed) {
      packed = i / panels;
      int64_t end;
      ga_share(g->m, (int)blocks, (int)packed, &s.row, &end);
      s.split = ga_rows_of(end - s.row, path->rows);
      pack_rows(&s);
    }
    multiply_panel(&s, i % panels);
  }
}

void ga_scaled_naive(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  int64_t groups = groups_of(g), from, to;
  ga_share(g->m * g->n, nthreads, tid, &from, &to);
  for (int64_t at = from; at < to; at++) {
    int64_t i = at / g->n, j = at % g->n;
    const uint8_t *a = (const uint8_t *)g->a + i * g->lda, *b = (const uint8_t *)g->b + j * g->k;
    float sum = 0;
    for (int64_t group = 0; group < groups; group++) {
      int64_t k0 = group * g->weights.group;
      float part = 0;
      for (int64_t k = k0; k < k0 + group_k(g, group); k++) part += ga_fp8_to_float(a[k]) * ga_fp8_to_float(b[k]);
      sum += part * (g->a_scales[group * g->a_scales_ld + i] * g->b_scales[j / g->weights.columns * groups + group]);
    }
    ((uint16_t *)g->c)[i * g->ldc + j] = ga_float_to_bf16(sum);
  }
}
