#include "amx.h"

#include <stdlib.h>

#include "amx_tile.h"

// bf16 and int8 look alike to everything here but the dot product: a step is 64
// bytes of K whatever the type, and sums are 32 bits.
//
// The way through a product of more than 32 rows, from the outside in:
//
//   threads   share out rows and panels of C on a grid (divide)
//   rows      blocks of C's rows whose packed A fits into the scratch
//   columns   blocks of C that stay in the second-level cache as partial sums
//   K         some steps at a time: the piece of a panel stays in the first level
//   panels    a piece of B, used by all strips while it is in the first level
//   strips    a register block: 2×2 tiles
//
// A step of a register block takes 64 cycles and two tiles of each operand. With B's
// in the first level, A's 2 KiB come from the second: 32 bytes a cycle at the full
// rate. Each piece of K loads and stores the block's sums, 4 KiB each way every
// 64·steps cycles: 5 + 5 bytes a cycle at 12 steps. Both together are below what that
// cache sustains, some 48 bytes a cycle, as long as B stays: between two uses of it
// pass 24 KiB of B and the sums of two strips, 8 KiB, which fit in 48 KiB since A passes the
// first level by (stream_a). 512×256 sums, a piece of A and the next are 1.3 MiB of
// the second level's 2. What lies beyond is read once a block of C, 4 bytes a cycle for A
// and 2 for B, and is prefetched meanwhile.
ga_amx_tuning ga_amx_tuned = {
    .rows = 512, .cols = 256, .steps = 12, .stream_a = 1, .fetch_sums = 1, .kept = 2048, .prefetch_stride = 64, .panels = 2,
    .ahead = 4096,
};

#if GA_HAVE_TILES

#include "amx_job.h"

// The register blocks, one function for each type.
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

// few is a product of at most 16 rows: B passes by once, as fast as memory gives it.
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

// strip_of_all is a product of 17 to 32 rows: like few, with 2×2 tiles.
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

// divide finds the grid of threads, down×across, that costs a thread least: the
// register blocks it computes, the strips it packs (every thread packs the rows of
// its own), and the passes of B and A through its second-level cache. In cycles a
// step: a block takes 64, packing 2 KiB some 600, reading 2 KiB from beyond that
// cache 300, a quarter of which the multiplications don't hide.
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

// block is one block of C and its place in the scratch.
typedef struct {
  int64_t strip, strips, panel, panels; // first and number
  float *partial;                       // [panels][strips] of 4 KiB
} block;

static float *partial_of(const block *c, int64_t s, int64_t p) { return c->partial + (p * c->strips + s) * 1024; }

// column multiplies the strips of a block by a piece of its panel p.
static void column(const job *j, const block *c, int64_t p, const char *a, const char *b, int64_t from, int64_t steps,
                   ga_touch *next_a, ga_touch *next_b) {
  const ga_amx_tuning *t = &ga_amx_tuned;
  // The upper half of a strip alone is a block of its own.
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

// finish writes a block to C, neighbours in a row of C one after the other.
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

// multiply adds steps [from, from+steps) to a block of C. a is the packed block of
// A, next what follows it; or ahead is, whose strips are packed after each panel,
// a few at a time, so that the multiplications before hide where they come from.
//
// At the end of K the whole block is written to C, by rows of the block, since lines of
// C a row apart share pages of memory and sets of the caches with few others.
static void multiply(const job *j, const block *c, const char *a, int64_t from, int64_t steps, ga_touch next,
                     const packing *ahead) {
  int64_t strip_bytes = steps * GA_STEP_BYTES, offset = from * GA_STEP_BYTES, over = c->strips * steps;
  const char *b = j->b + c->panel * j->panel_bytes + offset;
  int ends = from + steps == j->steps;
  for (int64_t p = 0; p < c->panels; p++) {
    // After the last panel comes the first one's next piece, or the next block's first.
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

  // Partial sums first, packed A behind them. A block's rows are as many as fit
  // with all of K, so that A is packed once. Where K is so long that these are
  // few, some steps at a time are packed again for every block of C instead, into
  // two places in turn.
  int64_t rows = ga_amx_tuned.rows / 32, cols = ga_amx_tuned.cols / GA_PANEL;
  int64_t kc = j->steps < ga_amx_tuned.steps ? j->steps : ga_amx_tuned.steps;
  int64_t partial_bytes = rows * cols * 4096, room = scratch_bytes - partial_bytes;
  int64_t fitting = room / (j->steps * GA_STEP_BYTES);
  int once = fitting >= 4 || fitting >= last_strip - strip;
  if (once && rows > fitting) rows = fitting;
  if (2 * kc * rows * GA_STEP_BYTES > room) kc = room / (2 * rows * GA_STEP_BYTES);
  if (j->form != NULL && kc < j->steps) kc = kc < GA_BLOCK_STEPS ? GA_BLOCK_STEPS : kc / GA_BLOCK_STEPS * GA_BLOCK_STEPS;
  else kc = ceil_div(j->steps, ceil_div(j->steps, kc)); // pieces of much the same length
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
        // What comes next of A, the beginning after the end: packed already, or to be.
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

// Activations of a block of rows take up to so much of the scratch, and so many panels, by which decoding
// the weights is divided.
enum { ACTIVATION_BYTES = 5 << 20, ACTIVATION_PANELS = 16 };

// quantised_panel_bytes is what 32 rows of activations take, of as many k as weights are stored of.
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
  // The short ways need the packed A of all of K at once.
  int64_t room = ((int64_t)GA_SCRATCH_BYTES - 4 * GA_STEP_BYTES) / GA_TILE_BYTES;
  if (g->m <= GA_TILE_ROWS && j.steps <= room) few(&j, tid, nthreads, scratch);
  else if (g->m <= 2 * GA_TILE_ROWS && 2 * j.steps <= room) strip_of_all(&j, tid, nthreads, scratch);
  else many(&j, tid, nthreads, scratch);
}

#else

// No device offers the kernels here.
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
