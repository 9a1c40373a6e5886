// The blocked kernel. Each thread computes a rectangle of C and packs its part of A, with all of K if that
// fits. Loop nest:
//
//   rows of C, MC at a time        A packed, a slice of it in L2
//     panels, NC at a time         sums of MC×NC outputs in L2
//       K, KC words at a time
//         one panel                its slice of B in L1
//           one tile of rows       sums in registers
//
// Sums stay in scratch as fp32 or int32 between slices of K and are rounded to C once. An output's order of
// additions does not depend on the number of threads. On AVX-512 it depends on M: tiles of fewer than seven
// rows keep several sums (tile_avx512_amd64.h).
#include "epilogue.h"
#include "quantised.h"
#include "tiled.h"

// KC is in words of a column: 32 columns are 48 KiB of B, streamed with 14 rows of A (21 KiB). MC limits the
// sums and A's slice (240·384·4 = 360 KiB), NC the sums (240·256·4 = 240 KiB); together they fit in an L2 of
// 1 MiB.
enum { KC_WORDS = 384, MC = 240, NC_PANELS = 8 };

// Scratch: B's slice widened, the sums, and A in the rest.
#define WIDE_BYTES ((int64_t)KC_WORDS * GA_PANEL * 4)
#define SUMS_BYTES ((int64_t)(MC + GA_MAX_ROWS) * NC_PANELS * GA_PANEL * 4)
#define A_BYTES ((int64_t)GA_SCRATCH_BYTES - WIDE_BYTES - SUMS_BYTES)

// The maximum number of row tiles for widening in registers; with more, widening ahead is faster.
enum { DIRECT_TILES = 2 };

// A thread's extra cost per row and per panel, in outputs: packing a row of A costs as much as 16 columns of
// it, reading and widening a panel of B as 8 rows.
enum { ROW_OVERHEAD = 16, PANEL_OVERHEAD = 8 };

typedef struct {
  int64_t row0, row1, panel0, panel1;
} region;

static region region_of(const ga_gemm *g, const ga_path *path, int tid, int nthreads) {
  int64_t panels = ga_panels(g->n), tiles = (g->m + path->rows - 1) / path->rows;
  int best_rows = 1;
  double best = -1;
  for (int across = 1; across <= nthreads; across++) {
    if (nthreads % across != 0) continue;
    int down = nthreads / across;
    int64_t rows = (tiles + down - 1) / down * g->m / tiles, cols = (panels + across - 1) / across;
    double cost = ((double)rows + PANEL_OVERHEAD) * ((double)cols * GA_PANEL + ROW_OVERHEAD);
    if (best < 0 || cost < best) {
      best = cost;
      best_rows = down;
    }
  }
  int across = nthreads / best_rows;
  region r;
  ga_rows split = ga_rows_of(g->m, path->rows);
  int64_t t0, t1;
  ga_share(tiles, best_rows, tid / across, &t0, &t1);
  r.row0 = ga_row_begin(split, t0);
  r.row1 = ga_row_begin(split, t1);
  ga_share(panels, across, tid % across, &r.panel0, &r.panel1);
  return r;
}

typedef struct {
  const ga_gemm *g;
  const ga_path *path;
  const char *b;
  const int32_t *sums_of_b;
  char *a, *wide, *acc;
  ga_rows split;
  int64_t row, rows;
} block;

static void pack_a(const block *s, int64_t k0, int64_t k1) {
  int64_t words = ga_words(s->path, k1 - k0), size = ga_size(s->g->dtype);
  for (int64_t t = 0; t < s->split.count; t++) {
    int64_t at = ga_row_begin(s->split, t);
    const char *src = (const char *)s->g->a + ((s->row + at) * s->g->lda + k0) * size;
    s->path->pack_a(src, s->g->lda, ga_row_count(s->split, t), k1 - k0, words, s->a + ga_tile_bytes(at, words));
  }
}

// multiply adds [k0,k1) of K to the sums of panels [p0,p1) and stores them after the last slice. A has
// a_words packed words from a_k0 on.
static void multiply(const block *s, int64_t p0, int64_t p1, int64_t k0, int64_t k1, int64_t a_k0, int64_t a_words) {
  const ga_gemm *g = s->g;
  const ga_path *path = s->path;
  int quantised = g->weights.bits > 0;
  int64_t words = ga_words(path, k1 - k0);
  int64_t panel_bytes = quantised ? ga_quantised_panel_bytes(g) : ga_panel_bytes(g->dtype, g->k);
  int direct = path->direct != NULL && s->split.count <= DIRECT_TILES && !quantised;
  ga_tile tile = direct ? path->direct : path->tile;
  int parts = direct ? 1 : path->parts;
  for (int64_t p = p0; p < p1; p++) {
    const char *b = s->b + p * panel_bytes;
    if (!quantised) b = ga_slice(b, g->dtype, k0);
    const char *multiplied = b;
    if (quantised) {
      // Prefetches the next panel's slice.
      ((const ga_form *)g->weights.form)->decode(g, b, k0, words, p + 1 < p1 ? panel_bytes : 0, s->wide);
      multiplied = s->wide;
    } else if (path->widen_b != NULL && !direct) {
      path->widen_b(b, words, s->wide);
      multiplied = s->wide;
    }
    char *acc = s->acc + (p - p0) * s->rows * GA_PANEL * 4;
    // The first tiles each prefetch a part of the next panel's slice.
    int64_t four = 4 * path->group * GA_PANEL * ga_size(g->dtype), step = parts > 1 && four > 256 ? 256 : four;
    const char *ahead = b + panel_bytes, *ahead_end = p + 1 < p1 && !quantised ? ahead + words / 4 * four : ahead;
    for (int part = 0; part < parts; part++)
      for (int64_t t = 0; t < s->split.count; t++) {
        int64_t at = ga_row_begin(s->split, t);
        int rows = ga_row_count(s->split, t);
        const char *a = s->a + ga_tile_bytes(at, a_words) + ga_tile_bytes(rows, (k0 - a_k0) / path->group);
        int fetch = ahead < ahead_end;
        tile(rows, words, a, multiplied + part * 64, acc + at * GA_PANEL * 4 + part * 64, k0 == 0,
             fetch ? ahead : multiplied, fetch ? step : 0);
        ahead += words / 4 * step;
      }
    if (k1 < g->k) continue;
    ga_columns to = ga_finish(g, acc, s->rows, s->row, p * GA_PANEL);
    char *c = (char *)g->c + (s->row * g->ldc + to.first) * (g->dtype == GA_INT8 ? 4 : ga_size(g->dtype));
    path->store(acc, (int)s->rows, to.count, s->sums_of_b == NULL ? NULL : s->sums_of_b + to.first, c, g->ldc);
  }
}

void ga_tiled(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  const ga_path *path = g->plan;
  block s = {.g = g, .path = path, .b = ga_packed_b(g, tid, nthreads, team)};
  if (g->dtype == GA_INT8) s.sums_of_b = ga_column_sums(s.b, g->n, g->k);
  s.wide = scratch;
  s.acc = s.wide + WIDE_BYTES;
  s.a = s.acc + SUMS_BYTES;

  region r = region_of(g, path, tid, nthreads);
  int64_t rows = r.row1 - r.row0;
  if (rows == 0 || r.panel0 == r.panel1) return;

  // All of K if a block of rows fits; otherwise as many whole slices as fit, packed again for each group of
  // panels.
  int64_t kc = (int64_t)KC_WORDS * path->group, k_step = g->k;
  int64_t fit = A_BYTES / ga_tile_bytes(1, ga_words(path, g->k));
  if (fit < path->rows) {
    fit = MC;
    k_step = A_BYTES / ga_tile_bytes(MC, 1) * path->group / kc * kc;
  }
  if (fit > MC) fit = MC;
  int64_t tiles = ga_rows_of(rows, path->rows).count;
  int64_t tiles_of_block = fit / path->rows, blocks = (tiles + tiles_of_block - 1) / tiles_of_block;

  ga_rows all = ga_rows_of(rows, path->rows);
  for (int64_t i = 0; i < blocks; i++) {
    int64_t t0 = tiles * i / blocks, t1 = tiles * (i + 1) / blocks;
    s.row = r.row0 + ga_row_begin(all, t0);
    s.rows = r.row0 + ga_row_begin(all, t1) - s.row;
    s.split = ga_rows_of(s.rows, path->rows);
    for (int64_t p = r.panel0; p < r.panel1; p += NC_PANELS) {
      int64_t p1 = p + NC_PANELS < r.panel1 ? p + NC_PANELS : r.panel1;
      for (int64_t from = 0; from < g->k; from += k_step) {
        int64_t to = from + k_step < g->k ? from + k_step : g->k;
        if (k_step < g->k || p == r.panel0) pack_a(&s, from, to);
        for (int64_t k0 = from; k0 < to; k0 += kc)
          multiply(&s, p, p1, k0, k0 + kc < to ? k0 + kc : to, from, ga_words(path, to - from));
      }
    }
  }
}
