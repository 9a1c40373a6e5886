#include "amx.h"

#include <stdlib.h>

#include "amx_tile.h"

// bf16 and int8 differ only in the dot product: a step is 64 bytes of K for both, and sums are 32 bits.
//
// Loop nest for products of more than 32 rows:
//
//   threads   split rows and panels of C on a grid (divide)
//   rows      blocks of C whose packed A fits in the scratch
//   columns   blocks of C with partial sums in L2
//   K         a few steps at a time: the piece of a panel stays in L1
//   panels    a piece of B, used by all strips while in L1
//   strips    a register block: 2×2 tiles
//
// A step of a register block takes 64 cycles. B's tiles are in L1; A's 2 KiB come from L2 at 32 bytes per
// cycle. Each piece of K loads and stores the block's 4 KiB of sums, 5 + 5 bytes per cycle at 12 steps. L2
// sustains the total, some 48 bytes per cycle, while B stays in L1. Between two uses of B's piece pass 24 KiB
// of B and 8 KiB of sums, which fit in 48 KiB because A bypasses L1 (stream_a). 512×256 sums, a piece of A
// and the next take 1.3 of L2's 2 MiB. Data beyond L2 is read once per block of C, 4 bytes per cycle for A
// and 2 for B, and is prefetched.
ga_amx_tuning ga_amx_tuned = {
    .rows = 512, .cols = 256, .steps = 12, .stream_a = 1, .fetch_sums = 1, .kept = 2048, .prefetch_stride = 64, .panels = 2,
    .ahead = 4096,
};

#if GA_HAVE_TILES

#include "amx_job.h"

#define BLOCKS(type, int8)                                                                                      \
  static GA_TILE_CODE __attribute__((noinline)) void column_##type(int stream_a, const ga_column *w) {          \
    if (stream_a) ga_block_column(int8, 1, w);                                                                  \
    else ga_block_column(int8, 0, w);                                                                           \
  }                                                                                                             \
  static GA_TILE_CODE __attribute__((noinline)) void long_##type(const char *a, const char *b, int64_t steps,   \
                                                                 float *sums, int ahead) {                      \
    ga_block_long(int8, a, b, steps, sums, ahead);                                                              \
  }                                                                                                             \
  static GA_TILE_CODE __attribute__((noinline)) void half_##type(                                               \
      const char *a, const char *b, int64_t steps, int resume, float *partial, int stream_a, ga_touch *next_a,  \
      ga_touch *next_b) {                                                                                       \
    ga_block_half(int8, a, b, steps, resume, partial, stream_a, next_a, next_b);                                \
  }                                                                                                             \
  static GA_TILE_CODE __attribute__((noinline)) void few_##type(                                                \
      int panels, const char *a, const char *b, int64_t panel_bytes, int64_t steps, int ahead, float *out) {    \
    if (panels == 1) ga_block_few(int8, 1, a, b, panel_bytes, steps, ahead, out);                               \
    else if (panels == 2) ga_block_few(int8, 2, a, b, panel_bytes, steps, ahead, out);                          \
    else ga_block_few(int8, 3, a, b, panel_bytes, steps, ahead, out);                                           \
  }
BLOCKS(bf16, 0)
BLOCKS(int8, 1)

static GA_TILE_CODE __attribute__((noinline)) void configure(int rows, unsigned full) {
  ga_tile_config c = ga_tiles(rows, full);
  TILE_FENCE();
  TILE_CONFIG(&c);
}

static GA_TILE_CODE __attribute__((noinline)) void release(void) { TILE_RELEASE(); }

// few computes at most 16 rows; it streams B once at memory speed.
static void few(const job *j, int tid, int nthreads, char *scratch) {
  const ga_gemm *g = j->g;
  float *out = (float *)scratch;
  char *a = scratch + 3 * GA_STEP_BYTES;
  int64_t from, to;
  ga_share(ga_panels(g->n), nthreads, tid, &from, &to);
  if (from == to) return;
  pack_strip(j, 0, g->m, 0, j->steps, 1, a);
  TILE_FENCE();
  configure((int)g->m, 1u << 7);
  for (int64_t p = from; p < to;) {
    int panels = to - p < ga_amx_tuned.panels ? (int)(to - p) : ga_amx_tuned.panels;
    const char *b = j->b + p * j->panel_bytes;
    if (j->is_int8) few_int8(panels, a, b, j->panel_bytes, j->steps, ga_amx_tuned.ahead, out);
    else few_bf16(panels, a, b, j->panel_bytes, j->steps, ga_amx_tuned.ahead, out);
    for (int i = 0; i < panels; i++, p++) store(j, out + i * 512, 0, p * GA_PANEL, GA_TILE_ROWS);
  }
  release();
}

// strip_of_all computes 17 to 32 rows like few, with 2×2 tiles.
static void strip_of_all(const job *j, int tid, int nthreads, char *scratch) {
  const ga_gemm *g = j->g;
  float *out = (float *)scratch;
  char *a = scratch + 2 * GA_STEP_BYTES;
  int64_t from, to;
  ga_share(ga_panels(g->n), nthreads, tid, &from, &to);
  if (from == to) return;
  pack_strip(j, 0, g->m, 0, j->steps, 2, a);
  TILE_FENCE();
  configure(GA_TILE_ROWS, 0xff);
  for (int64_t p = from; p < to; p++) {
    const char *b = j->b + p * j->panel_bytes;
    if (j->is_int8) long_int8(a, b, j->steps, out, ga_amx_tuned.ahead);
    else long_bf16(a, b, j->steps, out, ga_amx_tuned.ahead);
    store(j, out, 0, p * GA_PANEL, 2 * GA_TILE_ROWS);
  }
  release();
}

// divide picks the cheapest grid of threads, down×across. In cycles per step, a register block takes 64,
// packing a strip some 600, and reading 2 KiB from beyond L2 300; multiplication hides 3/4 of the last.
static void divide(int64_t strips, int64_t panels, int nthreads, int *down, int *across) {
  double least = 0;
  int64_t rows = ga_amx_tuned.rows / 32, cols = ga_amx_tuned.cols / GA_PANEL;
  for (int d = nthreads; d >= 1; d--) {
    if (nthreads % d != 0) continue;
    int64_t s = ceil_div(strips, d), p = ceil_div(panels, nthreads / d);
    double cost = 64.0 * (double)(s * p) + 600.0 * (double)s +
                  75.0 * (double)(p * ceil_div(s, rows) + s * (ceil_div(p, cols) - 1));
    if (d == nthreads || cost < least) {
      least = cost;
      *down = d;
      *across = nthreads / d;
    }
  }
}

typedef struct {
  int64_t strip, strips, panel, panels; // first and number
  float *partial;                       // [panels][strips] of 4 KiB
} block;

static float *partial_of(const block *c, int64_t s, int64_t p) { return c->partial + (p * c->strips + s) * 1024; }

static void column(const job *j, const block *c, int64_t p, const char *a, const char *b, int64_t from, int64_t steps,
                   ga_touch *next_a, ga_touch *next_b) {
  const ga_amx_tuning *t = &ga_amx_tuned;
  // A last strip of at most 16 rows has its own block.
  int half = j->rows <= (c->strip + c->strips) * 32 - GA_TILE_ROWS;
  float *partial = partial_of(c, 0, p);
  int64_t strips = c->strips - half;
  if (strips > 0) {
    ga_column w = {.a = a, .b = b, .strips = strips, .steps = steps, .partial = partial, .resume = from > 0,
                   .fetch_sums = t->fetch_sums, .next_a = next_a, .next_b = next_b};
    if (j->is_int8) column_int8(t->stream_a, &w);
    else column_bf16(t->stream_a, &w);
  }
  if (!half) return;
  partial += strips * 1024;
  a += strips * steps * GA_STEP_BYTES;
  if (j->is_int8) half_int8(a, b, steps, from > 0, partial, t->stream_a, next_a, next_b);
  else half_bf16(a, b, steps, from > 0, partial, t->stream_a, next_a, next_b);
}

// finish writes a block to C, row by row of C.
static void finish(const job *j, const block *c) {
  int64_t outer = c->strips, inner = c->panels;
  if (j->form != NULL) outer = c->panels, inner = c->strips; // turned
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      int64_t s = j->form != NULL ? i : o, p = j->form != NULL ? o : i;
      store(j, partial_of(c, s, p), (c->strip + s) * 32, (c->panel + p) * GA_PANEL, 2 * GA_TILE_ROWS);
    }
}

static void pack(const job *j, const packing *w, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; i++) {
    int64_t row = (w->strip + i) * 32;
    char *out = w->out + i * w->steps * GA_STEP_BYTES;
    if (j->form != NULL) decode_strip(j, row, w->from, w->steps, out);
    else pack_strip(j, row, j->rows - row, w->from, w->steps, 2, out);
  }
  TILE_FENCE();
}

// multiply adds steps [from, from+steps) to a block of C. a is the block's packed A; next is the data to
// prefetch. If ahead has strips, some are packed after each panel, with prefetches during the multiplications
// before.
//
// At the end of K it writes the block to C by rows of the block, because lines of C in different rows share
// few pages and cache sets.
static void multiply(const job *j, const block *c, const char *a, int64_t from, int64_t steps, ga_touch next,
                     const packing *ahead) {
  int64_t strip_bytes = steps * GA_STEP_BYTES, offset = from * GA_STEP_BYTES, over = c->strips * steps;
  const char *b = j->b + c->panel * j->panel_bytes + offset;
  int ends = from + steps == j->steps;
  for (int64_t p = 0; p < c->panels; p++) {
    // The last panel is followed by the first panel's next piece, or the next block's first piece.
    const char *after = p + 1 < c->panels || ends ? b + (p + 1) * j->panel_bytes - (p + 1 < c->panels ? 0 : offset) : b + strip_bytes;
    int64_t left = p + 1 < c->panels ? j->panel_bytes - offset : ends ? j->panel_bytes : j->panel_bytes - offset - strip_bytes;
    if (ends && c->panel + p + 1 == ga_panels(j->cols)) left = 0;
    ga_touch next_b = touch(after, left < strip_bytes ? left : strip_bytes, 0, 1, over);
    int64_t first, last;
    ga_share(ahead->strips, (int)c->panels, (int)p, &first, &last);
    if (last > first) next = touch_raw(j, (ahead->strip + first) * 32, (last - first) * 32, ahead->from, ahead->steps, over);
    column(j, c, p, a, b + p * j->panel_bytes, from, steps, &next, &next_b);
    pack(j, ahead, first, last);
  }
  if (ends) finish(j, c);
}

static void many(job *j, int tid, int nthreads, char *scratch) {
  int down = 1, across = 1;
  divide(ceil_div(j->rows, 32), ga_panels(j->cols), nthreads, &down, &across);
  int64_t strip, last_strip, panel, last_panel;
  ga_share(ceil_div(j->rows, 32), down, tid / across, &strip, &last_strip);
  ga_share(ga_panels(j->cols), across, tid % across, &panel, &last_panel);
  if (strip == last_strip || panel == last_panel) return;
  int64_t scratch_bytes = (int64_t)GA_SCRATCH_BYTES;
  if (j->form != NULL) {
    scratch_bytes -= (last_panel - panel) * j->panel_bytes;
    for (int64_t p = panel; p < last_panel; p++)
      pack_activations(j, j->first + p * GA_PANEL, j->cols - p * GA_PANEL, scratch + scratch_bytes + (p - panel) * j->panel_bytes);
    j->b = scratch + scratch_bytes - panel * j->panel_bytes;
  }

  // The scratch holds partial sums, then packed A. If enough rows fit with all of K, A is packed once. For a
  // longer K, a few steps of A are packed again for each block of C, in two alternating places.
  int64_t rows = ga_amx_tuned.rows / 32, cols = ga_amx_tuned.cols / GA_PANEL;
  int64_t kc = j->steps < ga_amx_tuned.steps ? j->steps : ga_amx_tuned.steps;
  int64_t partial_bytes = rows * cols * 4096, room = scratch_bytes - partial_bytes;
  int64_t fitting = room / (j->steps * GA_STEP_BYTES);
  int once = fitting >= 4 || fitting >= last_strip - strip;
  if (once && rows > fitting) rows = fitting;
  if (2 * kc * rows * GA_STEP_BYTES > room) kc = room / (2 * rows * GA_STEP_BYTES);
  if (j->form != NULL && kc < j->steps) kc = kc < GA_BLOCK_STEPS ? GA_BLOCK_STEPS : kc / GA_BLOCK_STEPS * GA_BLOCK_STEPS;
  else kc = ceil_div(j->steps, ceil_div(j->steps, kc)); // pieces of similar length
  if (kc > j->steps) kc = j->steps;
  rows = ceil_div(last_strip - strip, ceil_div(last_strip - strip, rows));
  cols = ceil_div(last_panel - panel, ceil_div(last_panel - panel, cols));
  char *packed = scratch + partial_bytes;

  configure(GA_TILE_ROWS, 0xff);
  for (int64_t s = strip; s < last_strip; s += rows) {
    int64_t strips = last_strip - s < rows ? last_strip - s : rows;
    packing now = {s, strips, 0, kc, packed};
    pack(j, &now, 0, strips);
    for (int64_t p = panel; p < last_panel; p += cols) {
      int64_t panels = last_panel - p < cols ? last_panel - p : cols;
      block c = {s, strips, p, panels, (float *)scratch};
      for (int64_t from = 0; from < j->steps; from += kc) {
        // The next piece of A, wrapping around at the end: already packed or still to pack.
        int64_t at = from + now.steps < j->steps ? from + now.steps : 0;
        packing then = {s, strips, at, j->steps - at < kc ? j->steps - at : kc, packed};
        if (once) then.out += at * strips * GA_STEP_BYTES;
        else if (now.out == packed) then.out += kc * strips * GA_STEP_BYTES;
        packing ahead = then;
        ga_touch next = {0};
        if (at == 0 && p + panels == last_panel) {
          ahead.strips = 0;
        } else if (once && (p > panel || at == 0)) {
          ahead.strips = 0;
          next = touch(then.out, then.steps * strips * GA_STEP_BYTES, 0, 1, strips * panels * now.steps);
        }
        multiply(j, &c, now.out, from, now.steps, next, &ahead);
        now = then;
      }
    }
  }
  release();
  if (j->stream) GA_STREAM_FENCE();
}

// Limits on scratch and panels for the activations of a block of rows. More panels amortize decoding the
// weights.
enum { ACTIVATION_BYTES = 5 << 20, ACTIVATION_PANELS = 16 };

// quantised_panel_bytes is the size of 32 rows of activations, with K padded as in the weights.
static int64_t quantised_panel_bytes(const ga_gemm *g) { return ga_quantised_k(&g->weights, g->k) / 32 * GA_STEP_BYTES; }

int ga_amx_quantised_fits(const ga_gemm *g) {
  return g->dtype == GA_BF16 && ((const ga_form *)g->weights.form)->group == 2 && quantised_panel_bytes(g) <= ACTIVATION_BYTES;
}

void ga_amx_quantised(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)team;
  int64_t panel_bytes = quantised_panel_bytes(g), most = ACTIVATION_BYTES / panel_bytes;
  if (most > ACTIVATION_PANELS) most = ACTIVATION_PANELS;
  int64_t blocks = ceil_div(ga_panels(g->m), most);
  for (int64_t i = 0; i < blocks; i++) {
    int64_t from, to;
    ga_share(ga_panels(g->m), (int)blocks, (int)i, &from, &to);
    job j = {.g = g, .path = g->plan, .form = g->weights.form, .rows = g->n, .first = from * GA_PANEL};
    j.cols = (to * GA_PANEL < g->m ? to * GA_PANEL : g->m) - j.first;
    j.panel_bytes = panel_bytes;
    j.steps = panel_bytes / GA_STEP_BYTES;
    many(&j, tid, nthreads, scratch);
  }
}

void ga_amx(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  job j = {.g = g, .path = g->plan, .rows = g->m, .cols = g->n, .b = ga_packed_b(g, tid, nthreads, team), .is_int8 = g->dtype == GA_INT8};
  j.panel_bytes = ga_panel_bytes(g->dtype, g->k);
  j.steps = j.panel_bytes / GA_STEP_BYTES;
  j.stream = streams(g, j.path, nthreads);
  // few and strip_of_all need packed A for all of K.
  int64_t room = ((int64_t)GA_SCRATCH_BYTES - 4 * GA_STEP_BYTES) / GA_TILE_BYTES;
  if (g->m <= GA_TILE_ROWS && j.steps <= room) few(&j, tid, nthreads, scratch);
  else if (g->m <= 2 * GA_TILE_ROWS && 2 * j.steps <= room) strip_of_all(&j, tid, nthreads, scratch);
  else many(&j, tid, nthreads, scratch);
}

#else

// This build has no AMX, so no device offers the kernels.
int ga_amx_quantised_fits(const ga_gemm *g) { return (void)g, 0; }

void ga_amx_quantised(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)g, (void)tid, (void)nthreads, (void)scratch, (void)team;
  abort();
}

void ga_amx(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)g, (void)tid, (void)nthreads, (void)scratch, (void)team;
  abort();
}

#endif
