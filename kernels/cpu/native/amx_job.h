// Code shared by amx's loops: the current product, packing operands as tiles, storing sums to C, and
// prefetching.
#ifndef GEMMAUDIT_AMX_JOB_H
#define GEMMAUDIT_AMX_JOB_H

#include <string.h>

#include "amx.h"
#include "amx_block.h"
#include "epilogue.h"
#include "quantised.h"

static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The steps of the largest block of quantized weights, which are decoded together.
enum { GA_BLOCK_STEPS = 4 };

// job is the state of one thread. Products with quantized weights are transposed: weight columns are the rows
// of A, decoded instead of copied; activation rows are the columns of B; sums are transposed when stored.
typedef struct {
  const ga_gemm *g;
  const ga_path *path;  // rounds sums to C
  const ga_form *form;  // decodes weights, or NULL
  int64_t rows, cols;   // of the tile product: C, or a transposed block of it
  int64_t first;        // first row of C of a transposed block
  const char *b;
  int64_t steps;       // of K
  int64_t panel_bytes; // of B
  int is_int8;
  int stream;          // write C with non-temporal stores
} job;

// streams reports whether to write C with non-temporal stores: if C exceeds the caches, reading lines to
// overwrite them costs more.
static int streams(const ga_gemm *g, const ga_path *path, int nthreads) {
  int64_t pitch = g->ldc * (g->dtype == GA_INT8 ? 4 : 2);
  return path->stream != NULL && ((uintptr_t)g->c | (uintptr_t)pitch) % GA_LINE == 0 &&
         g->m * pitch > (int64_t)nthreads * ga_amx_tuned.kept * 1024;
}

// pack_strip copies rows [row, row+rows) × steps [from, from+steps) of A into tiles of `tiles` KiB per step,
// padded with zeros. Rows of A are often a power of two apart, which puts 16 of them in one L1 set;
// contiguous tiles avoid that.
static void pack_strip(const job *j, int64_t row, int64_t rows, int64_t from, int64_t steps, int tiles, char *out) {
  int64_t size = ga_size(j->g->dtype), step_bytes = (int64_t)tiles * GA_TILE_BYTES;
  int64_t width = j->g->k * size - from * GA_TILE_ROW_BYTES;
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

static void transpose(const char *from, int64_t pitch, char *to, int64_t to_pitch) {
#if defined(__x86_64__)
  ga_transpose_avx512(from, pitch, to, to_pitch);
#else // emulated tiles
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) memcpy(to + j * to_pitch + i * 4, from + i * pitch + j * 4, 4);
#endif
}

static const char *quad_at(const job *j, int64_t quad, int64_t step) {
  const ga_weights *w = &j->g->weights;
  return (const char *)j->g->b + quad * ga_quad_bytes(w, j->g->k) + ga_quad_header(w, j->g->k) + step * 32 * w->bits / 8 * GA_QUAD;
}

static void decode_strip(const job *j, int64_t row, int64_t from, int64_t steps, char *out) {
  int64_t each = ga_quad_bytes(&j->g->weights, j->g->k);
  for (int64_t q = 0; q < GA_PANEL / GA_QUAD; q++)
    j->form->columns(j->g, (const char *)j->g->b + (row / GA_QUAD + q) * each, from * 32, (from + steps) * 32,
                     out + q * GA_QUAD * GA_TILE_ROW_BYTES, GA_STEP_BYTES);
}

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

// store_turned writes sums of 32 weight columns from row and 32 activation rows from col.
static void store_turned(const job *j, const float *sums, int64_t row, int64_t col) {
  const ga_gemm *g = j->g;
  _Alignas(64) float turned[32 * 32];
  int64_t rows = j->cols - col < 32 ? j->cols - col : 32, cols = g->n - row < 32 ? g->n - row : 32;
  for (int i = 0; i < 4; i++)
    transpose((const char *)(sums + i / 2 * 512 + i % 2 * 16), GA_SUMS_STRIDE, (char *)(turned + i % 2 * 512 + i / 2 * 16),
              GA_SUMS_STRIDE);
  j->path->store(turned, (int)rows, cols, NULL, (char *)g->c + ((j->first + col) * g->ldc + row) * 2, g->ldc);
}

// store writes rows of 32 sums to C at (row, col), clipped to C.
static void store(const job *j, float *sums, int64_t row, int64_t col, int64_t rows) {
  const ga_gemm *g = j->g;
  if (j->form != NULL) {
    store_turned(j, sums, row, col);
    return;
  }
  if (rows > g->m - row) rows = g->m - row;
  ga_columns to = ga_finish(g, sums, rows, row, col);
  char *c = (char *)g->c + (row * g->ldc + to.first) * (j->is_int8 ? 4 : 2);
  if (j->stream && to.count == GA_PANEL) j->path->stream(sums, (int)rows, c, g->ldc);
  else j->path->store(sums, (int)rows, to.count, NULL, c, g->ldc);
}

// touch plans prefetches of rows, pitch apart, spread over over_steps steps. Each step covers one row.
static ga_touch touch(const char *at, int64_t width, int64_t pitch, int64_t rows, int64_t over_steps) {
  ga_touch t = {0};
  int stride = ga_amx_tuned.prefetch_stride;
  if (stride == 0 || over_steps <= 0 || rows <= 0 || width <= 0) return t;
  int64_t steps = over_steps > rows ? over_steps / rows : 1, per = ceil_div(ceil_div(width, stride), steps) * stride;
  return (ga_touch){.at = at, .row = at, .end = at + width, .width = width, .pitch = pitch, .rows = rows - 1,
                    .per = per < GA_STEP_BYTES ? per : GA_STEP_BYTES, .stride = stride};
}

// touch_raw plans prefetches of unpacked A: rows [row, row+rows) × steps [from, from+steps).
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

typedef struct {
  int64_t strip, strips, from, steps;
  char *out;
} packing;

#endif
