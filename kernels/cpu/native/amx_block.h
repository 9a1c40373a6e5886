// The register blocks of amx: the code between loading and storing the eight tiles. One step multiplies 64
// bytes of each row of A.
//
// Packed A has 2 KiB per step for a strip of 32 rows: the tile of the upper 16 rows, then the lower. Packed B
// also has 2 KiB per step for a panel of 32 columns: 16 rows of 128 bytes, with one tile in the left half and
// one in the right.
#ifndef GEMMAUDIT_AMX_BLOCK_H
#define GEMMAUDIT_AMX_BLOCK_H

#include <stddef.h>

#include "amx_tile.h"

enum { GA_STEP_BYTES = 2048, GA_B_STRIDE = 128, GA_SUMS_STRIDE = 128, GA_LINE = 64 };

// ga_touch is a set of memory rows to prefetch into L2 during multiplications: per bytes each step, one line
// per stride.
typedef struct {
  const char *at, *end;          // the rest of the current row
  const char *row;               // its beginning
  int64_t width, pitch, rows;    // row size, row distance in bytes, and remaining rows
  int64_t per, stride;
} ga_touch;

// ga_touch_some prefetches for one step. It never continues in the next row: a mispredicted branch would
// stall tile loads for longer than a line saves.
static inline __attribute__((always_inline)) void ga_touch_some(ga_touch *t) {
  const char *to = t->end - t->at < t->per ? t->end : t->at + t->per;
  for (; t->at < to; t->at += t->stride) __builtin_prefetch(t->at, 0, 2);
  if (t->at >= t->end && t->rows > 0) {
    t->rows--;
    t->at = t->row += t->pitch;
    t->end = t->at + t->width;
  }
}

#define GA_DOT(int8, c, a, b) \
  do {                        \
    if (int8) TILE_DOT_INT8(c, a, b); \
    else TILE_DOT_BF16(c, a, b);      \
  } while (0)

static inline __attribute__((always_inline)) GA_TILE_CODE void ga_store_sums(float *sums) {
  TILE_STORE(0, sums, GA_SUMS_STRIDE);
  TILE_STORE(1, sums + 16, GA_SUMS_STRIDE);
  TILE_STORE(2, sums + 512, GA_SUMS_STRIDE);
  TILE_STORE(3, sums + 528, GA_SUMS_STRIDE);
}

#define GA_LOAD_A(t, at)                                    \
  do {                                                      \
    if (stream_a) TILE_STREAM(t, at, GA_TILE_ROW_BYTES);    \
    else TILE_LOAD(t, at, GA_TILE_ROW_BYTES);               \
  } while (0)

// ga_column multiplies strips of A by one piece of a panel of B, which is in L1 from the second strip on.
// Each strip has 32×32 sums.
typedef struct {
  const char *a, *b;
  int64_t strips, steps;
  float *partial;
  int resume;     // 1: add to existing sums
  int fetch_sums; // 1: prefetch the next strip's sums into L1
  ga_touch *next_a, *next_b;
} ga_column;

// ga_block_column computes register blocks of 32×32: 2×2 tiles of C in registers 0 to 3, A in 4 and 5, B in 6
// and 7. Per step, 64 cycles of multiplication need 4 KiB, with 32 cycles of L1 loads. With stream_a, A
// bypasses L1.
//
// A store waits 52 cycles for the last dot product of its tile. Four stores in a row would fill the queues
// with 64 lines and block all dot products, so each is issued just before the next strip's first dot product
// of the same tile. A step's loads precede its dot products, to overlap with the previous step.
static inline __attribute__((always_inline)) GA_TILE_CODE void ga_block_column(const int int8, const int stream_a,
                                                                               const ga_column *w) {
  const char *a = w->a;
  float *sums = w->partial, *before = NULL;
  ga_touch next_a = *w->next_a, next_b = *w->next_b;
  const int64_t steps = w->steps, lines = w->fetch_sums ? (64 + steps - 1) / steps * GA_LINE : 0;
  const int resume = w->resume;
  for (int64_t strip = 0; strip < w->strips; strip++, sums += 1024) {
    const char *b = w->b, *fetched = (const char *)(sums + 1024);
#define GA_LOADS()                                \
  do {                                            \
    GA_LOAD_A(4, a);                              \
    TILE_LOAD(6, b, GA_B_STRIDE);                 \
    GA_LOAD_A(5, a + GA_TILE_BYTES);              \
    TILE_LOAD(7, b + GA_TILE_ROW_BYTES, GA_B_STRIDE); \
  } while (0)
#define GA_FETCH()                                                                            \
  do {                                                                                        \
    for (int64_t i = 0; i < lines; i += GA_LINE) __builtin_prefetch(fetched + i, 0, 3);       \
    fetched += lines;                                                                         \
    ga_touch_some(&next_a);                                                                   \
    ga_touch_some(&next_b);                                                                   \
    a += GA_STEP_BYTES;                                                                       \
    b += GA_STEP_BYTES;                                                                       \
  } while (0)
#define GA_TURN(t, at)                                                       \
  do {                                                                       \
    if (before != NULL) TILE_STORE(t, before + (at), GA_SUMS_STRIDE);        \
    if (resume) TILE_LOAD(t, sums + (at), GA_SUMS_STRIDE);                   \
    else TILE_ZERO(t);                                                       \
  } while (0)
    GA_LOADS();
    GA_TURN(0, 0);
    GA_DOT(int8, 0, 4, 6);
    GA_TURN(2, 512);
    GA_DOT(int8, 2, 5, 6);
    GA_TURN(1, 16);
    GA_DOT(int8, 1, 4, 7);
    GA_TURN(3, 528);
    GA_DOT(int8, 3, 5, 7);
    GA_FETCH();
    for (int64_t s = 1; s < steps; s++) {
      GA_LOADS();
      GA_DOT(int8, 0, 4, 6);
      GA_DOT(int8, 2, 5, 6);
      GA_DOT(int8, 1, 4, 7);
      GA_DOT(int8, 3, 5, 7);
      GA_FETCH();
    }
#undef GA_TURN
#undef GA_FETCH
#undef GA_LOADS
    before = sums;
  }
  ga_store_sums(before);
  *w->next_a = next_a;
  *w->next_b = next_b;
}

// ga_block_long computes one register block over all of K and prefetches B.
static inline __attribute__((always_inline)) GA_TILE_CODE void ga_block_long(const int int8, const char *a, const char *b,
                                                                             int64_t steps, float *sums, int ahead) {
  TILE_ZERO(0);
  TILE_ZERO(1);
  TILE_ZERO(2);
  TILE_ZERO(3);
  for (int64_t s = 0; s < steps; s++, a += GA_STEP_BYTES, b += GA_STEP_BYTES) {
    TILE_LOAD(6, b, GA_B_STRIDE);
    TILE_LOAD(4, a, GA_TILE_ROW_BYTES);
    GA_DOT(int8, 0, 4, 6);
    TILE_LOAD(7, b + GA_TILE_ROW_BYTES, GA_B_STRIDE);
    GA_DOT(int8, 1, 4, 7);
    TILE_LOAD(5, a + GA_TILE_BYTES, GA_TILE_ROW_BYTES);
    GA_DOT(int8, 2, 5, 6);
    GA_DOT(int8, 3, 5, 7);
    if (ahead > 0)
      for (int i = 0; i < GA_STEP_BYTES; i += GA_LINE) __builtin_prefetch(b + ahead + i, 0, 3);
  }
  ga_store_sums(sums);
}

// ga_block_half computes only the upper 16 rows, at the end of M.
static inline __attribute__((always_inline)) GA_TILE_CODE void ga_block_half(
    const int int8, const char *a, const char *b, int64_t steps, int resume, float *partial, const int stream_a,
    ga_touch *next_a, ga_touch *next_b) {
  if (resume) {
    TILE_LOAD(0, partial, GA_SUMS_STRIDE);
    TILE_LOAD(1, partial + 16, GA_SUMS_STRIDE);
  } else {
    TILE_ZERO(0);
    TILE_ZERO(1);
  }
  for (int64_t s = 0; s < steps; s++, a += GA_STEP_BYTES, b += GA_STEP_BYTES) {
    TILE_LOAD(6, b, GA_B_STRIDE);
    GA_LOAD_A(4, a);
    GA_DOT(int8, 0, 4, 6);
    TILE_LOAD(7, b + GA_TILE_ROW_BYTES, GA_B_STRIDE);
    GA_DOT(int8, 1, 4, 7);
    ga_touch_some(next_a);
    ga_touch_some(next_b);
  }
  TILE_STORE(0, partial, GA_SUMS_STRIDE);
  TILE_STORE(1, partial + 16, GA_SUMS_STRIDE);
}

// ga_block_few computes at most 16 rows × panels·32 columns over all of K, limited by reading B. C is in
// registers 0 to 5, A in 6, B in 7. A takes 1 KiB per step; only the configured rows are read. Each panel is
// a separate stream. out receives 2 KiB per panel.
#define GA_FEW_PANEL(int8, p, left, right)                                             \
  do {                                                                                 \
    const char *at = b + (p) * panel_bytes;                                            \
    TILE_LOAD(7, at, GA_B_STRIDE);                                                     \
    GA_DOT(int8, left, 6, 7);                                                          \
    TILE_LOAD(7, at + GA_TILE_ROW_BYTES, GA_B_STRIDE);                                 \
    GA_DOT(int8, right, 6, 7);                                                         \
    if (ahead > 0)                                                                     \
      for (int i = 0; i < GA_STEP_BYTES; i += GA_LINE) __builtin_prefetch(at + ahead + i, 0, 3); \
  } while (0)

static inline __attribute__((always_inline)) GA_TILE_CODE void ga_block_few(
    const int int8, const int panels, const char *a, const char *b, int64_t panel_bytes, int64_t steps, int ahead,
    float *out) {
  TILE_ZERO(0);
  TILE_ZERO(1);
  if (panels > 1) {
    TILE_ZERO(2);
    TILE_ZERO(3);
  }
  if (panels > 2) {
    TILE_ZERO(4);
    TILE_ZERO(5);
  }
  for (int64_t s = 0; s < steps; s++, a += GA_TILE_BYTES, b += GA_STEP_BYTES) {
    TILE_LOAD(6, a, GA_TILE_ROW_BYTES);
    GA_FEW_PANEL(int8, 0, 0, 1);
    if (panels > 1) GA_FEW_PANEL(int8, 1, 2, 3);
    if (panels > 2) GA_FEW_PANEL(int8, 2, 4, 5);
  }
  TILE_STORE(0, out, GA_SUMS_STRIDE);
  TILE_STORE(1, out + 16, GA_SUMS_STRIDE);
  if (panels > 1) {
    TILE_STORE(2, out + 512, GA_SUMS_STRIDE);
    TILE_STORE(3, out + 528, GA_SUMS_STRIDE);
  }
  if (panels > 2) {
    TILE_STORE(4, out + 1024, GA_SUMS_STRIDE);
    TILE_STORE(5, out + 1040, GA_SUMS_STRIDE);
  }
}

#endif
