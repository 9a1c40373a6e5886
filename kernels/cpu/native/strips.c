// Loops for 4-bit weights in strips. Each thread packs its rows of A to integers, then goes over its strips:
//
//   rows of C     packed A in L2
//     strips      codes with all of K, from memory once
//       tiles     sums in registers
//
// One thread sums an output, block by block of K, in an order that depends only on K.
#include "strips.h"

#include <string.h>

#include "tiled.h"

// Scratch: the sums of a strip, then packed rows. A block of rows takes a part of L2 unless one tile is larger.
enum { BLOCK_ROWS = 256 };
#define SUMS_BYTES ((int64_t)BLOCK_ROWS * GA_PANEL * 4)
#define A_BYTES ((int64_t)GA_SCRATCH_BYTES - SUMS_BYTES)
#define L2_BYTES ((int64_t)384 << 10)

const ga_form *ga_strips_for(unsigned isa) {
#if defined(__x86_64__)
  if (isa & GA_ISA_AVX512) return isa & GA_ISA_VNNI ? &ga_avx512_vnni_strips : &ga_avx512_strips;
  if (isa & GA_ISA_AVX2) return &ga_avx2_strips;
#else
  (void)isa;
#endif
  return NULL;
}

static const ga_form *form_of(const ga_gemm *g) { return g->weights.form; }

static int tile_rows(const ga_gemm *g) {
  const struct ga_strip_code *code = form_of(g)->code;
  return g->weights.limbs == 1 ? code->rounded_rows : code->rows;
}

// row_bytes is the size of a packed row.
static int64_t row_bytes(const ga_gemm *g) {
  return (g->k + GA_BLOCK_K - 1) / GA_BLOCK_K * ga_limb_bytes(&g->weights);
}

int ga_strips_fit(const ga_gemm *g) {
  int64_t rows = g->m < tile_rows(g) ? g->m : tile_rows(g);
  return rows * row_bytes(g) <= A_BYTES;
}

static unsigned code_at(const uint8_t *codes, int64_t i) { return codes[i / 2] >> (i % 2 * 4) & 15; }

void ga_strip_pack(const ga_gemm *g, const uint8_t *codes, const uint16_t *scales, const uint8_t *zeros, int64_t strip, char *out) {
  const ga_weights *w = &g->weights;
  int64_t columns = form_of(g)->strip, groups = g->k / w->group, k = ga_quantised_k(w, g->k);
  uint8_t *to_zeros = (uint8_t *)out + groups * columns * 2, *to = (uint8_t *)out + ga_strip_header(w, g->k);
  memset(out, 0, (size_t)ga_strip_bytes(w, g->k));
  for (int64_t c = 0; c < columns; c++) {
    int64_t column = strip * columns + c;
    if (column >= g->n) continue; // scales of 0
    unsigned zero = 8;
    for (int64_t i = 0; i < groups; i++) {
      memcpy(out + (i * columns + c) * 2, &scales[column * groups + i], 2);
      if (!w->zeros) continue;
      zero = code_at(zeros, column * groups + i);
      to_zeros[i * columns + c] = (uint8_t)zero;
    }
    const uint8_t *from = codes + column * g->k / 2;
    for (int64_t at = 0; at < k; at += 8) {
      uint8_t *word = to + (at / 8 * columns + c) * 4;
      for (int64_t i = 0; i < 8; i++) word[i % 4] |= (uint8_t)((at + i < g->k ? code_at(from, at + i) : zero) << (i / 4 * 4));
    }
  }
}

typedef struct {
  int64_t row0, row1, strip0, strip1;
} region;

// region_of divides C among threads. Packing a row costs as much as ROW_COST of its outputs.
enum { ROW_COST = 8 };

static region region_of(const ga_gemm *g, int tid, int nthreads) {
  int64_t columns = form_of(g)->strip, strips = (g->n + columns - 1) / columns, tile = tile_rows(g);
  int64_t tiles = (g->m + tile - 1) / tile, least = -1;
  int down = 1;
  for (int d = 1; d <= nthreads; d++) {
    if (nthreads % d != 0) continue;
    int64_t across = nthreads / d, cost = (tiles + d - 1) / d * ((strips + across - 1) / across * columns + ROW_COST);
    if (least < 0 || cost < least) least = cost, down = d;
  }
  int across = nthreads / down;
  region r;
  ga_rows split = ga_rows_of(g->m, (int)tile);
  int64_t t0, t1;
  ga_share(tiles, down, tid / across, &t0, &t1);
  r.row0 = ga_row_begin(split, t0);
  r.row1 = ga_row_begin(split, t1);
  ga_share(strips, across, tid % across, &r.strip0, &r.strip1);
  return r;
}

void ga_strips(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)team;
  const ga_form *form = form_of(g);
  const ga_path *path = g->plan;
  region of = region_of(g, tid, nthreads);
  if (of.row0 == of.row1 || of.strip0 == of.strip1) return;
  int64_t each = row_bytes(g), fit = L2_BYTES / each;
  if (fit < tile_rows(g)) fit = tile_rows(g);
  if (fit > BLOCK_ROWS) fit = BLOCK_ROWS;
  float *sums = scratch;
  char *a = (char *)scratch + SUMS_BYTES;
  ga_rows all = ga_rows_of(of.row1 - of.row0, (int)(fit / tile_rows(g) * tile_rows(g)));
  for (int64_t i = 0; i < all.count; i++) {
    int64_t row = of.row0 + ga_row_begin(all, i), rows = ga_row_count(all, i);
    ga_rows tiles = ga_rows_of(rows, tile_rows(g));
    uint8_t finite[BLOCK_ROWS];
    for (int64_t t = 0; t < tiles.count; t++)
      finite[t] = (uint8_t)form->code->pack(g, row + ga_row_begin(tiles, t), ga_row_count(tiles, t), a + ga_row_begin(tiles, t) * each);
    int together = rows == 1 ? GA_STRIP_PAIR : 1;
    for (int64_t s = of.strip0; s < of.strip1; s += together) {
      int strips = s + together <= of.strip1 ? together : 1;
      const char *strip = (const char *)g->b + s * ga_strip_bytes(&g->weights, g->k);
      for (int64_t t = 0; t < tiles.count; t++) {
        int64_t at = ga_row_begin(tiles, t);
        int some = ga_row_count(tiles, t);
        if (finite[t]) form->code->multiply(g, some, strips, strip, a + at * each, sums + at * GA_PANEL);
        else
          for (int i = 0; i < strips; i++)
            form->code->floats(g, row + at, some, strip + i * ga_strip_bytes(&g->weights, g->k), sums + at * GA_PANEL + i * form->strip);
      }
      int64_t column = s * form->strip, width = strips * form->strip, columns = g->n - column < width ? g->n - column : width;
      path->store(sums, (int)rows, columns, NULL, (char *)g->c + (row * g->ldc + column) * ga_size(g->dtype), g->ldc);
    }
  }
}
