// Loops for quantized weights. Each thread holds all rows of A and reads its share of the quads. Vectors run
// along K in both operands, without transposition: an output is a vector of sums, added up at the end of K.
//
// For few rows, weights are integers in registers; the loops visit slices of K that keep A in L1, then the
// quads of a panel. More rows share decoded weights:
//
//   quads of a block           vectors of sums in L2
//     K, SLICE_WORDS at a time A's part in L2
//       two quads              decoded to L1 by the last tile of rows
//         a tile of rows       sums in registers
//
// One thread sums an output, in an order that depends only on K.
#include "quantised.h"
#include "tiled.h"

// A slice of a quad's columns is 8 KiB: two fit in L1 with a slice of a tile's rows, 12 KiB, and its sums.
enum { SLICE_WORDS = 512, PAIR = 2 };

// A block's rows are limited to keep the sums of a panel in half of a 512 KiB L2.
enum { SUMS_BYTES = 256 << 10, BLOCK_ROWS = 128, PANEL_QUADS = GA_PANEL / GA_QUAD };

// The part of L1 for A's slice with few rows.
enum { FEW_BYTES = 24 << 10 };

// The distance covers memory latency, as in gemv.c.
enum { AHEAD_BYTES = 4096 };

// Scratch: decoded weights, the sums of a panel, their vectors, and A in the rest.
#define SLICE_BYTES ((int64_t)SLICE_WORDS * GA_QUAD * 4)
#define PANEL_BYTES ((int64_t)BLOCK_ROWS * GA_PANEL * 4)
#define A_BYTES ((int64_t)GA_SCRATCH_BYTES - PAIR * SLICE_BYTES - PANEL_BYTES - SUMS_BYTES)

static const ga_form *form_of(const ga_gemm *g) { return g->weights.form; }

static const ga_few *few_of(const ga_gemm *g) { return g->weights.few; }

// row_bytes is the size of a packed row of A, few_bytes the size for few rows.
static int64_t row_bytes(const ga_gemm *g) { return ga_quantised_k(&g->weights, g->k) / form_of(g)->group * 4; }
static int64_t few_bytes(const ga_gemm *g) { return ga_quantised_k(&g->weights, g->k) * few_of(g)->bytes; }

int ga_quantised_fits(const ga_gemm *g) {
  const ga_form *form = form_of(g);
  return (g->m <= form->rows ? g->m * few_bytes(g) : form->tile * row_bytes(g)) <= A_BYTES;
}

static void pack_rows(const ga_gemm *g, int64_t row, int rows, char *out) {
  const ga_form *form = form_of(g);
  int64_t vector = form->lanes * 4;
  for (int r = 0; r < rows; r++)
    form->pack_a(g, (const char *)g->a + (row + r) * g->lda * ga_size(g->dtype),
                 ga_quantised_k(&g->weights, g->k), out + r * vector, rows * vector);
}

static void store_quads(const ga_gemm *g, int64_t row, int64_t rows, int64_t quad, int64_t quads, const float *sums) {
  const ga_path *path = g->plan;
  int64_t column = quad * GA_QUAD, columns = g->n - column < quads * GA_QUAD ? g->n - column : quads * GA_QUAD;
  path->store(sums, (int)rows, columns, NULL, (char *)g->c + (row * g->ldc + column) * ga_size(g->dtype), g->ldc);
}

// few_slice is the K of a slice for few rows: a multiple of 128 with A in FEW_BYTES.
static int64_t few_slice(const ga_gemm *g) {
  int64_t k = FEW_BYTES / (g->m * few_of(g)->bytes) / 128 * 128;
  return k > 128 ? k : 128;
}

void ga_quantised_few(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)team;
  const ga_few *form = few_of(g);
  int64_t from, to, each = ga_quad_bytes(&g->weights, g->k), k = ga_quantised_k(&g->weights, g->k), step = few_slice(g);
  int64_t vector = form->lanes * 4, size = ga_size(g->dtype);
  ga_share((g->n + GA_QUAD - 1) / GA_QUAD, nthreads, tid, &from, &to);
  if (from == to) return;
  float *sums = scratch;
  char *vectors = (char *)scratch + PANEL_BYTES, *a = vectors + SUMS_BYTES;
  for (int64_t r = 0; r < g->m; r++)
    form->pack_a(g, (const char *)g->a + r * g->lda * size, k, a + r * vector, g->m * vector);
  for (int64_t some; from < to; from += some) {
    some = to - from < PANEL_QUADS ? to - from : PANEL_QUADS;
    for (int64_t k0 = 0; k0 < k; k0 += step)
      for (int64_t q = 0; q < some; q++)
        form->multiply(g, (int)g->m, (const char *)g->b + (from + q) * each, k0, k0 + step < k ? k0 + step : k, AHEAD_BYTES,
                       a + k0 * g->m * form->bytes, vectors + q * g->m * GA_QUAD * vector, k0 == 0);
    for (int64_t q = 0; q < some; q++)
      form->total((int)g->m, vectors + q * g->m * GA_QUAD * vector, sums + q * GA_QUAD);
    store_quads(g, 0, g->m, from, some, sums);
  }
}

typedef struct {
  const ga_gemm *g;
  ga_rows split;
  int64_t row, rows, from, to;
  int64_t vector; // bytes
  char *wide, *a, *vectors;
  float *sums;
} block;

// tiles_of divides rows into tiles. The last tile decodes, so multiply must support its row count.
static ga_rows tiles_of(const ga_form *form, int64_t rows) {
  int64_t count = (rows + form->tile - 1) / form->tile;
  if (rows / count > form->rows) count++;
  return (ga_rows){count, rows / count, rows % count};
}

static void slice(const block *s, int64_t k0, int64_t k1) {
  const ga_gemm *g = s->g;
  const ga_form *form = form_of(g);
  int64_t unit = form->lanes * form->group, units = (k1 - k0) / unit, each = ga_quad_bytes(&g->weights, g->k);
  int64_t next = (k1 - k0) * g->weights.bits / 8 * GA_QUAD; // bytes to a quad's next slice
  for (int64_t q = s->from, some; q < s->to; q += some) {
    some = s->to - q < PAIR ? s->to - q : PAIR;
    // Prefetches the codes decoded next; after the last quad, the next slice of the first quads.
    int64_t ahead = q + some < s->to ? some * each : (s->from - q) * each + next;
    for (int64_t t = s->split.count - 1; t >= 0; t--) {
      int64_t at = ga_row_begin(s->split, t);
      int rows = ga_row_count(s->split, t);
      const char *a = s->a + at * row_bytes(g) + k0 / unit * rows * s->vector;
      for (int64_t i = 0; i < some; i++) {
        char *columns = s->wide + i * SLICE_BYTES, *sums = s->vectors + ((q + i - s->from) * s->rows + at) * GA_QUAD * s->vector;
        if (t < s->split.count - 1) form->add(rows, units, a, columns, sums, k0 == 0);
        else form->multiply(g, rows, (const char *)g->b + (q + i) * each, k0, k1, ahead, a, columns, sums, k0 == 0);
      }
    }
  }
}

static void store(const block *s) {
  for (int64_t q = s->from, some; q < s->to; q += some) {
    some = s->to - q < PANEL_QUADS ? s->to - q : PANEL_QUADS;
    for (int64_t i = 0; i < some; i++)
      form_of(s->g)->total((int)s->rows, s->vectors + (q + i - s->from) * s->rows * GA_QUAD * s->vector, s->sums + i * GA_QUAD);
    store_quads(s->g, s->row, s->rows, q, some, s->sums);
  }
}

void ga_quantised_rows(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)team;
  const ga_form *form = form_of(g);
  int64_t from, to, k = ga_quantised_k(&g->weights, g->k), step = (int64_t)SLICE_WORDS * form->group;
  ga_share((g->n + GA_QUAD - 1) / GA_QUAD, nthreads, tid, &from, &to);
  if (from == to) return;
  block s = {.g = g, .vector = form->lanes * 4, .wide = scratch};
  s.sums = (float *)(s.wide + PAIR * SLICE_BYTES);
  s.vectors = (char *)s.sums + PANEL_BYTES;
  s.a = s.vectors + SUMS_BYTES;

  int64_t fit = A_BYTES / row_bytes(g);
  ga_rows blocks = ga_rows_of(g->m, (int)(fit < BLOCK_ROWS ? fit : BLOCK_ROWS));
  for (int64_t i = 0; i < blocks.count; i++) {
    s.row = ga_row_begin(blocks, i);
    s.rows = ga_row_count(blocks, i);
    s.split = tiles_of(form, s.rows);
    for (int64_t t = 0; t < s.split.count; t++)
      pack_rows(g, s.row + ga_row_begin(s.split, t), ga_row_count(s.split, t), s.a + ga_row_begin(s.split, t) * row_bytes(g));
    int64_t quads = SUMS_BYTES / (s.rows * GA_QUAD * s.vector) / PANEL_QUADS * PANEL_QUADS;
    for (s.from = from; s.from < to; s.from += quads) {
      s.to = s.from + quads < to ? s.from + quads : to;
      for (int64_t k0 = 0; k0 < k; k0 += step) slice(&s, k0, k0 + step < k ? k0 + step : k);
      store(&s);
    }
  }
}
