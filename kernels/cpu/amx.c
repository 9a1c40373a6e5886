#include "amx.h"

#include <stdlib.h>
#include <string.h>

#include "amx_tile.h"
#include "quantised.h"

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
// 64·steps cycles: 8 + 8 bytes a cycle at 8 steps. Both together are what that cache
// sustains, some 48 bytes a cycle, so B must not be pushed out: between two uses of it
// pass 16 KiB of A, 16 of B and 4 of sums, which fit in 48 KiB; 12 steps would not,
// but for stream_a. 512×256 sums, a piece of A and the next are 1 MiB of the second
// level's 2. What lies beyond is read once a block of C, 4 bytes a cycle for A and 2
// for B, and is prefetched meanwhile.
ga_amx_tuning ga_amx_tuned = {
    .rows = 512, .cols = 256, .steps = 8, .stream_a = 1, .prefetch_stride = 64, .prefetch_a = 0, .panels = 2, .ahead = 4096,
};

#if GA_HAVE_TILES

#include "amx_block.h"

// Quantised weights are decoded by as many steps as their largest block has.
enum { GA_BLOCK_STEPS = 4 };

// job is what all loops of one thread share. Products with quantised weights are turned: columns of weights
// are the rows of A, which are decoded instead of copied, rows of activations the columns of B, and sums are
// transposed on their way to C.
typedef struct {
  const ga_gemm *g;
  const ga_path *path;  // which rounds sums to C
  const ga_form *form;  // which decodes weights, or NULL
  int64_t rows, cols;   // of the tiles' product: those of C, or of a block of it turned
  int64_t first;        // row of C with which a block begins that is turned
  const char *b;
  int64_t steps;       // of K
  int64_t panel_bytes; // of B
  int is_int8;
} job;

// pack_strip copies rows [row, row+rows) × steps [from, from+steps) of A into tiles:
// each step `tiles` KiB, rows beyond C's and elements beyond K zero. A's own rows
// lie a power of two apart as often as not, which makes 16 of them fall into one set
// of the first-level cache; tiles of consecutive bytes don't.
static void pack_strip(const job *j, int64_t row, int64_t rows, int64_t from, int64_t steps, int tiles, char *out) {
  int64_t size = ga_size(j->g->dtype), step_bytes = (int64_t)tiles * GA_TILE_BYTES;
  int64_t width = j->g->k * size - from * GA_TILE_ROW_BYTES; // bytes of a row from here on
  int64_t whole = width / GA_TILE_ROW_BYTES < steps ? width / GA_TILE_ROW_BYTES : steps;
  for (int64_t r = 0; r < tiles * GA_TILE_ROWS; r++) {
    char *to = out + r * GA_TILE_ROW_BYTES;
    if (r >= rows) {
      for (int64_t s = 0; s < steps; s++, to += step_bytes) memset(to, 0, GA_TILE_ROW_BYTES);
      continue;
    }
    const char *src = (const char *)j->g->a + (row + r) * j->g->lda * size + from * GA_TILE_ROW_BYTES;
    for (int64_t s = 0; s < whole; s++, to += step_bytes, src += GA_TILE_ROW_BYTES) memcpy(to, src, GA_TILE_ROW_BYTES);
    if (whole < steps) {
      memset(to, 0, GA_TILE_ROW_BYTES);
      memcpy(to, src, (size_t)(width - whole * GA_TILE_ROW_BYTES));
    }
  }
}

// transpose is for 16 rows of 16 words.
static void transpose(const char *from, int64_t pitch, char *to, int64_t to_pitch) {
#if defined(__x86_64__)
  ga_transpose_avx512(from, pitch, to, to_pitch);
#else // with tiles in software
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) memcpy(to + j * to_pitch + i * 4, from + i * pitch + j * 4, 4);
#endif
}

// quad_at is the codes of a quad from a step on.
static const char *quad_at(const job *j, int64_t quad, int64_t step) {
  const ga_weights *w = &j->g->weights;
  return (const char *)j->g->b + quad * ga_quad_bytes(w, j->g->k) + ga_quad_header(w, j->g->k) + step * 32 * w->bits / 8 * GA_QUAD;
}

// decode_strip is pack_strip for 32 columns of weights.
static void decode_strip(const job *j, int64_t row, int64_t from, int64_t steps, char *out) {
  int64_t each = ga_quad_bytes(&j->g->weights, j->g->k);
  for (int64_t q = 0; q < GA_PANEL / GA_QUAD; q++)
    j->form->columns(j->g, (const char *)j->g->b + (row / GA_QUAD + q) * each, from * 32, (from + steps) * 32,
                     out + q * GA_QUAD * GA_TILE_ROW_BYTES, GA_STEP_BYTES);
}

// pack_activations packs rows of activations, up to 32, as a panel of B.
static void pack_activations(const job *j, int64_t row, int64_t rows, char *out) {
  const ga_gemm *g = j->g;
  for (int64_t s = 0; s < j->steps; s++, out += GA_STEP_BYTES)
    for (int half = 0; half < 2; half++) {
      const char *from = (const char *)g->a + ((row + half * GA_TILE_ROWS) * g->lda + s * 32) * 2;
      int64_t pitch = g->lda * 2, some = rows - half * GA_TILE_ROWS, width = g->k - s * 32;
      char edge[GA_TILE_BYTES];
      if (some < GA_TILE_ROWS || width < 32) {
        memset(edge, 0, sizeof edge);
        for (int64_t r = 0; r < some && r < GA_TILE_ROWS && width > 0; r++)
          memcpy(edge + r * GA_TILE_ROW_BYTES, from + r * pitch, (size_t)(width < 32 ? width : 32) * 2);
        from = edge;
        pitch = GA_TILE_ROW_BYTES;
      }
      transpose(from, pitch, out + half * GA_TILE_ROW_BYTES, GA_B_STRIDE);
    }
}

// store_turned writes sums of 32 columns of weights, from row on, times 32 rows of activations, from col on.
static void store_turned(const job *j, const float *sums, int64_t row, int64_t col) {
  const ga_gemm *g = j->g;
  _Alignas(64) float turned[32 * 32];
  int64_t rows = j->cols - col < 32 ? j->cols - col : 32, cols = g->n - row < 32 ? g->n - row : 32;
  for (int i = 0; i < 4; i++)
    transpose((const char *)(sums + i / 2 * 512 + i % 2 * 16), GA_SUMS_STRIDE, (char *)(turned + i % 2 * 512 + i / 2 * 16),
              GA_SUMS_STRIDE);
  j->path->store(turned, (int)rows, cols, NULL, (char *)g->c + ((j->first + col) * g->ldc + row) * 2, g->ldc);
}

// store writes rows of 32 sums to C at (row, col), as many of them as C has.
static void store(const job *j, const float *sums, int64_t row, int64_t col, int64_t rows) {
  const ga_gemm *g = j->g;
  if (j->form != NULL) {
    store_turned(j, sums, row, col);
    return;
  }
  if (rows > g->m - row) rows = g->m - row;
  int64_t cols = g->n - col < GA_PANEL ? g->n - col : GA_PANEL, size = j->is_int8 ? 4 : 2;
  j->path->store(sums, (int)rows, cols, NULL, (char *)g->c + (row * g->ldc + col) * size, g->ldc);
}

// The register blocks, one function for each type.
#define BLOCKS(type, int8)                                                                                      \
  static GA_TILE_CODE __attribute__((noinline)) void wide_##type(                                               \
      const char *a, const char *b, int64_t steps, int resume, float *partial, int stream_a, int prefetch_a,    \
      int ahead_b, ga_touch *next_a, ga_touch *next_b) {                                                        \
    ga_block_wide(int8, a, b, steps, resume, partial, stream_a, prefetch_a, ahead_b, next_a, next_b);           \
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
  ga_touch none = {0};
  for (int64_t p = from; p < to; p++) {
    const char *b = j->b + p * j->panel_bytes;
    if (j->is_int8) wide_int8(a, b, j->steps, 0, out, 0, 0, ga_amx_tuned.ahead, &none, &none);
    else wide_bf16(a, b, j->steps, 0, out, 0, 0, ga_amx_tuned.ahead, &none, &none);
    store(j, out, 0, p * GA_PANEL, 2 * GA_TILE_ROWS);
  }
  release();
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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
  float *partial;                       // [strips][panels] of 4 KiB
} block;

static float *partial_of(const block *c, int64_t s, int64_t p) { return c->partial + (s * c->panels + p) * 1024; }

// registers computes one register block and writes it to C when K is at its end.
static void registers(const job *j, const block *c, int64_t s, int64_t p, const char *a, const char *b, int64_t from,
                      int64_t steps, ga_touch *next_a, ga_touch *next_b) {
  int64_t row = (c->strip + s) * 32, col = (c->panel + p) * GA_PANEL, rows = j->rows - row;
  float *partial = partial_of(c, s, p);
  int stream_a = ga_amx_tuned.stream_a, prefetch_a = ga_amx_tuned.prefetch_a;
  if (rows > GA_TILE_ROWS) {
    if (j->is_int8) wide_int8(a, b, steps, from > 0, partial, stream_a, prefetch_a, 0, next_a, next_b);
    else wide_bf16(a, b, steps, from > 0, partial, stream_a, prefetch_a, 0, next_a, next_b);
  } else {
    if (j->is_int8) half_int8(a, b, steps, from > 0, partial, stream_a, next_a, next_b);
    else half_bf16(a, b, steps, from > 0, partial, stream_a, next_a, next_b);
  }
  if (from + steps == j->steps) store(j, partial, row, col, 2 * GA_TILE_ROWS);
}

// touch brings rows of width bytes each, pitch apart, within over_steps steps.
static ga_touch touch(const char *at, int64_t width, int64_t pitch, int64_t rows, int64_t over_steps) {
  ga_touch t = {0};
  if (ga_amx_tuned.prefetch_stride == 0 || over_steps <= 0 || rows <= 0 || width <= 0) return t;
  t.at = t.row = at;
  t.end = at + width;
  t.width = width;
  t.pitch = pitch;
  t.rows = rows - 1;
  t.stride = ga_amx_tuned.prefetch_stride;
  int64_t per = ceil_div(rows * ceil_div(width, t.stride), over_steps) * t.stride;
  t.per = (int)(per < GA_STEP_BYTES ? per : GA_STEP_BYTES);
  return t;
}

// touch_raw is for rows [row, row+rows) × steps [from, from+steps) of A as it is stored.
static ga_touch touch_raw(const job *j, int64_t row, int64_t rows, int64_t from, int64_t steps, int64_t over_steps) {
  if (j->form != NULL) {
    const ga_weights *w = &j->g->weights;
    int64_t codes = steps * 32 * w->bits / 8 * GA_QUAD;
    return touch(quad_at(j, row / GA_QUAD, from), codes, ga_quad_bytes(w, j->g->k), rows / GA_QUAD, over_steps);
  }
  int64_t size = ga_size(j->g->dtype), width = j->g->k * size - from * GA_TILE_ROW_BYTES;
  if (rows > j->g->m - row) rows = j->g->m - row;
  if (width > steps * GA_TILE_ROW_BYTES) width = steps * GA_TILE_ROW_BYTES;
  const char *at = (const char *)j->g->a + row * j->g->lda * size + from * GA_TILE_ROW_BYTES;
  return touch(at, width, j->g->lda * size, rows, over_steps);
}

// packing is a piece of A that is to be packed, strip by strip.
typedef struct {
  int64_t strip, strips, from, steps;
  char *out;
} packing;

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
static void multiply(const job *j, const block *c, const char *a, int64_t from, int64_t steps, ga_touch next,
                     const packing *ahead) {
  int64_t strip_bytes = steps * GA_STEP_BYTES, offset = from * GA_STEP_BYTES;
  const char *b = j->b + c->panel * j->panel_bytes + offset;
  for (int64_t p = 0; p < c->panels; p++) {
    // After the last panel comes the first one's next piece.
    const char *after = p + 1 < c->panels ? b + (p + 1) * j->panel_bytes : b + strip_bytes;
    int64_t left = j->panel_bytes - offset - (p + 1 < c->panels ? 0 : strip_bytes), over = c->strips * steps;
    ga_touch next_b = touch(after, left < strip_bytes ? left : strip_bytes, 0, 1, over);
    int64_t first, last;
    ga_share(ahead->strips, (int)c->panels, (int)p, &first, &last);
    if (ahead->strips > 0) next = touch_raw(j, (ahead->strip + first) * 32, (last - first) * 32, ahead->from, ahead->steps, over);
    for (int64_t s = 0; s < c->strips; s++)
      registers(j, c, s, p, a + s * strip_bytes, b + p * j->panel_bytes, from, steps, &next, &next_b);
    pack(j, ahead, first, last);
  }
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
