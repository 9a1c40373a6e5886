#include "amx.h"

#include <stdlib.h>
#include <string.h>

#include "amx_tile.h"
#include "convert.h"
#include "pack.h"

// bf16 and int8 look alike to everything here but the dot product: a step is 64
// bytes of K whatever the type, and sums are 32 bits.
//
// The way through a product of more than 32 rows, from the outside in:
//
//   threads   share out rows and panels of C on a grid (divide)
//   rows      blocks of C's rows whose packed A fits into the scratch
//   columns   blocks of C that stay in the second-level cache as partial sums
//   K         some steps at a time: the block of A is then half the size of that
//             cache or less, and the piece of a panel fits the first level
//   panels    a piece of B, used by all strips while it is in the first level
//   strips    a register block: 2×2 tiles
//
// So everything beyond the second level is read once a block of C: 512×512 of them
// take 512·K of A and K·512 of B, 2 bytes a cycle each at the full rate of bf16.
// The next piece of B and the next block of A are prefetched meanwhile.
ga_amx_tuning ga_amx_tuned = {
    .rows = 512, .cols = 512, .steps = 12, .a_first = 0, .prefetch_stride = 64, .prefetch_a = 0, .panels = 2, .ahead = 4096,
};

#if GA_HAVE_TILES

#include "amx_block.h"

// job is what all loops of one thread share.
typedef struct {
  const ga_gemm *g;
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

// store_tile writes one 16×16 tile of sums to C: rows and cols of it are C's.
static void store_tile(const job *j, const float *tile, int64_t row, int64_t col, int64_t rows, int64_t cols) {
  if (rows > GA_TILE_ROWS) rows = GA_TILE_ROWS;
  if (cols > 16) cols = 16;
  if (rows <= 0 || cols <= 0) return;
  int64_t at = row * j->g->ldc + col;
  if (j->is_int8) {
    int32_t *c = (int32_t *)j->g->c + at;
    for (int64_t r = 0; r < rows; r++, tile += 16, c += j->g->ldc) memcpy(c, tile, (size_t)cols * 4);
    return;
  }
  uint16_t *c = (uint16_t *)j->g->c + at;
  for (int64_t r = 0; r < rows; r++, tile += 16, c += j->g->ldc) {
    uint16_t line[16];
    for (int i = 0; i < 16; i++) line[i] = ga_float_to_bf16(tile[i]);
    if (cols == 16) memcpy(c, line, sizeof line);
    else memcpy(c, line, (size_t)cols * 2);
  }
}

static void store_block(const job *j, const float *tiles, int64_t row, int64_t col, int64_t rows, int64_t cols) {
  store_tile(j, tiles, row, col, rows, cols);
  store_tile(j, tiles + 256, row, col + 16, rows, cols - 16);
  if (rows <= GA_TILE_ROWS) return;
  store_tile(j, tiles + 512, row + 16, col, rows - 16, cols);
  store_tile(j, tiles + 768, row + 16, col + 16, rows - 16, cols - 16);
}

// The register blocks, one function for each type.
#define BLOCKS(type, int8)                                                                                      \
  static GA_TILE_CODE __attribute__((noinline)) void wide_##type(                                               \
      const char *a, const char *b, int64_t steps, int resume, float *partial, int prefetch_a, int ahead_b,     \
      ga_touch *next_a, ga_touch *next_b) {                                                                     \
    ga_block_wide(int8, a, b, steps, resume, partial, prefetch_a, ahead_b, next_a, next_b);                     \
  }                                                                                                             \
  static GA_TILE_CODE __attribute__((noinline)) void half_##type(                                               \
      const char *a, const char *b, int64_t steps, int resume, float *partial, ga_touch *next_a,                \
      ga_touch *next_b) {                                                                                       \
    ga_block_half(int8, a, b, steps, resume, partial, next_a, next_b);                                          \
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
    for (int i = 0; i < panels; i++, p++) {
      store_tile(j, out + i * 512, 0, p * GA_PANEL, g->m, g->n - p * GA_PANEL);
      store_tile(j, out + i * 512 + 256, 0, p * GA_PANEL + 16, g->m, g->n - p * GA_PANEL - 16);
    }
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
    if (j->is_int8) wide_int8(a, b, j->steps, 0, out, 0, ga_amx_tuned.ahead, &none, &none);
    else wide_bf16(a, b, j->steps, 0, out, 0, ga_amx_tuned.ahead, &none, &none);
    store_block(j, out, 0, p * GA_PANEL, g->m, g->n - p * GA_PANEL);
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
  int64_t row = (c->strip + s) * 32, col = (c->panel + p) * GA_PANEL, rows = j->g->m - row;
  float *partial = partial_of(c, s, p);
  if (rows > GA_TILE_ROWS) {
    if (j->is_int8) wide_int8(a, b, steps, from > 0, partial, ga_amx_tuned.prefetch_a, 0, next_a, next_b);
    else wide_bf16(a, b, steps, from > 0, partial, ga_amx_tuned.prefetch_a, 0, next_a, next_b);
  } else {
    if (j->is_int8) half_int8(a, b, steps, from > 0, partial, next_a, next_b);
    else half_bf16(a, b, steps, from > 0, partial, next_a, next_b);
  }
  if (from + steps == j->steps) store_block(j, partial, row, col, rows, j->g->n - col);
}

static ga_touch touch(const char *at, int64_t bytes, int64_t over_steps) {
  ga_touch t = {0};
  if (ga_amx_tuned.prefetch_stride == 0 || over_steps <= 0) return t;
  t.at = at;
  t.end = at + bytes;
  t.stride = ga_amx_tuned.prefetch_stride;
  int64_t per = ceil_div(ceil_div(bytes, over_steps), t.stride) * t.stride;
  t.per = (int)(per < GA_STEP_BYTES ? per : GA_STEP_BYTES);
  return t;
}

// multiply adds steps [from, from+steps) to a block of C. a is the packed block of
// A, next what follows it.
static void multiply(const job *j, const block *c, const char *a, int64_t from, int64_t steps, ga_touch next) {
  int64_t strip_bytes = steps * GA_STEP_BYTES, offset = from * GA_STEP_BYTES;
  const char *b = j->b + c->panel * j->panel_bytes + offset;
  if (ga_amx_tuned.a_first) {
    for (int64_t s = 0; s < c->strips; s++) {
      ga_touch none = {0};
      for (int64_t p = 0; p < c->panels; p++)
        registers(j, c, s, p, a + s * strip_bytes, b + p * j->panel_bytes, from, steps, &next, &none);
    }
    return;
  }
  for (int64_t p = 0; p < c->panels; p++) {
    // After the last panel comes the first one's next piece.
    const char *after = p + 1 < c->panels ? b + (p + 1) * j->panel_bytes : b + strip_bytes;
    int64_t left = j->panel_bytes - offset - (p + 1 < c->panels ? 0 : strip_bytes);
    ga_touch next_b = touch(after, left < strip_bytes ? left : strip_bytes, c->strips * steps);
    for (int64_t s = 0; s < c->strips; s++)
      registers(j, c, s, p, a + s * strip_bytes, b + p * j->panel_bytes, from, steps, &next, &next_b);
  }
}

static void many(const job *j, int tid, int nthreads, char *scratch) {
  const ga_gemm *g = j->g;
  int down = 1, across = 1;
  divide(ceil_div(g->m, 32), ga_panels(g->n), nthreads, &down, &across);
  int64_t strip, last_strip, panel, last_panel;
  ga_share(ceil_div(g->m, 32), down, tid / across, &strip, &last_strip);
  ga_share(ga_panels(g->n), across, tid % across, &panel, &last_panel);
  if (strip == last_strip || panel == last_panel) return;

  // Partial sums first, packed A behind them. A block's rows are as many as fit
  // with all of K, so that A is packed once. Where K is so long that these are
  // few, some steps at a time are packed again for every block of C instead.
  int64_t rows = ga_amx_tuned.rows / 32, cols = ga_amx_tuned.cols / GA_PANEL;
  int64_t kc = j->steps < ga_amx_tuned.steps ? j->steps : ga_amx_tuned.steps;
  int64_t partial_bytes = rows * cols * 4096, room = (int64_t)GA_SCRATCH_BYTES - partial_bytes;
  int64_t fitting = room / (j->steps * GA_STEP_BYTES);
  int once = fitting >= 4 || fitting >= last_strip - strip;
  if (once && rows > fitting) rows = fitting;
  if (kc * rows * GA_STEP_BYTES > room) kc = room / (rows * GA_STEP_BYTES);
  rows = ceil_div(last_strip - strip, ceil_div(last_strip - strip, rows));
  cols = ceil_div(last_panel - panel, ceil_div(last_panel - panel, cols));
  char *packed = scratch + partial_bytes;

  configure(GA_TILE_ROWS, 0xff);
  for (int64_t s = strip; s < last_strip; s += rows) {
    int64_t strips = last_strip - s < rows ? last_strip - s : rows;
    for (int64_t p = panel; p < last_panel; p += cols) {
      int64_t panels = last_panel - p < cols ? last_panel - p : cols;
      block c = {s, strips, p, panels, (float *)scratch};
      for (int64_t from = 0; from < j->steps; from += kc) {
        int64_t steps = j->steps - from < kc ? j->steps - from : kc;
        char *a = once ? packed + from * strips * GA_STEP_BYTES : packed;
        int fresh = !once || p == panel;
        for (int64_t i = 0; fresh && i < strips; i++)
          pack_strip(j, (s + i) * 32, g->m - (s + i) * 32, from, steps, 2, a + i * steps * GA_STEP_BYTES);
        TILE_FENCE();
        // What is packed already and comes next, the beginning after the end.
        ga_touch next = {0};
        if (!fresh) {
          int64_t at = from + steps < j->steps ? from + steps : 0;
          int64_t count = j->steps - at < kc ? j->steps - at : kc;
          next = touch(packed + at * strips * GA_STEP_BYTES, count * strips * GA_STEP_BYTES, strips * panels * steps);
        }
        multiply(j, &c, a, from, steps, next);
      }
    }
  }
  release();
}

void ga_amx(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  job j = {.g = g, .b = ga_packed_b(g, tid, nthreads, team), .is_int8 = g->dtype == GA_INT8};
  j.panel_bytes = ga_panel_bytes(g->dtype, g->k);
  j.steps = j.panel_bytes / GA_STEP_BYTES;
  // The short ways need the packed A of all of K at once.
  int64_t room = ((int64_t)GA_SCRATCH_BYTES - 4 * GA_STEP_BYTES) / GA_TILE_BYTES;
  if (g->m <= GA_TILE_ROWS && j.steps <= room) few(&j, tid, nthreads, scratch);
  else if (g->m <= 2 * GA_TILE_ROWS && 2 * j.steps <= room) strip_of_all(&j, tid, nthreads, scratch);
  else many(&j, tid, nthreads, scratch);
}

#else

// No device offers the kernel here.
void ga_amx(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)g, (void)tid, (void)nthreads, (void)scratch, (void)team;
  abort();
}

#endif
