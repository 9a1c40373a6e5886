// Tile registers in software: eight per thread, with 16 rows of 64 bytes. Checks of the CPU's exceptions
// abort; arithmetic follows Intel's manual.
#ifndef GEMMAUDIT_AMX_EMULATION_H
#define GEMMAUDIT_AMX_EMULATION_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  ga_tile_config config; // palette 0: not configured
  union {
    uint8_t bytes[16][64];
    uint16_t half[16][32];
    int8_t int8[16][64];
    float fp32[16][16];
    int32_t int32[16][16];
  } tile[8];
} ga_emulated_state;

static _Thread_local ga_emulated_state ga_emulated;

static inline void ga_emulated_require(int holds, const char *what) {
  if (holds) return;
  fprintf(stderr, "amx emulation: %s\n", what);
  abort();
}

static inline void ga_emulated_config(const void *config) {
  ga_tile_config c;
  memcpy(&c, config, sizeof c);
  ga_emulated_require(sizeof c == 64 && c.palette == 1 && c.start_row == 0, "ldtilecfg: palette 1 from row 0 was expected");
  for (int i = 0; i < 14; i++) ga_emulated_require(c.reserved[i] == 0, "ldtilecfg: reserved bytes are set");
  for (int t = 0; t < 16; t++) {
    int used = c.bytes[t] != 0 && c.rows[t] != 0;
    ga_emulated_require(used || (c.bytes[t] == 0 && c.rows[t] == 0), "ldtilecfg: rows without bytes");
    ga_emulated_require(!used || (t < 8 && c.bytes[t] <= 64 && c.rows[t] <= 16), "ldtilecfg: a tile is too large");
  }
  memset(&ga_emulated, 0, sizeof ga_emulated);
  ga_emulated.config = c;
}

static inline void ga_emulated_release(void) { memset(&ga_emulated, 0, sizeof ga_emulated); }

static inline void ga_emulated_ready(int t) {
  ga_emulated_require(ga_emulated.config.palette == 1, "a tile is used without a configuration");
  ga_emulated_require(ga_emulated.config.rows[t] != 0, "a tile is used that has no rows");
}

static inline void ga_emulated_zero(int t) {
  ga_emulated_ready(t);
  memset(&ga_emulated.tile[t], 0, sizeof ga_emulated.tile[t]);
}

// Rows and bytes beyond the configuration become zero, as on the CPU.
static inline void ga_emulated_load(int t, const void *p, int64_t stride) {
  ga_emulated_zero(t);
  for (int r = 0; r < ga_emulated.config.rows[t]; r++)
    memcpy(ga_emulated.tile[t].bytes[r], (const char *)p + r * stride, ga_emulated.config.bytes[t]);
}

static inline void ga_emulated_store(int t, void *p, int64_t stride) {
  ga_emulated_ready(t);
  for (int r = 0; r < ga_emulated.config.rows[t]; r++)
    memcpy((char *)p + r * stride, ga_emulated.tile[t].bytes[r], ga_emulated.config.bytes[t]);
}

static inline void ga_emulated_match(int c, int a, int b) {
  const ga_tile_config *g = &ga_emulated.config;
  ga_emulated_ready(a);
  ga_emulated_ready(b);
  ga_emulated_ready(c);
  ga_emulated_require(a != b && a != c && b != c, "a dot product names a tile twice");
  ga_emulated_require(g->rows[c] == g->rows[a] && g->bytes[c] == g->bytes[b] && g->bytes[a] / 4 == g->rows[b],
                      "a dot product of tiles that don't match");
}

// Columns of C are computed side by side. Columns beyond the configuration are computed from zeros and not
// stored.
typedef int32_t ga_emulated_words __attribute__((vector_size(64), aligned(4), may_alias));
typedef float ga_emulated_floats __attribute__((vector_size(64), aligned(4), may_alias));

// Subnormal inputs and outputs become zero.
#define GA_EMULATED_FLUSH(x) \
  (ga_emulated_floats)((ga_emulated_words)(x) & ((((ga_emulated_words)(x) & 0x7f800000) != 0) | INT32_MIN))

// TDPBF16PS sums even and odd terms of k separately with FMA, then adds both to C. A product of two bf16 is
// exact in fp32, except below 2^-126, so adding it rounds like FMA.
static void ga_emulated_dot_bf16(int c, int a, int b) {
  ga_emulated_match(c, a, b);
  const int32_t upper = (int32_t)0xffff0000;
  for (int m = 0; m < ga_emulated.config.rows[c]; m++) {
    ga_emulated_floats even = {0}, odd = {0};
    for (int k = 0; k < ga_emulated.config.bytes[a] / 4; k++) {
      ga_emulated_words x = (ga_emulated_words){0} + ga_emulated.tile[a].int32[m][k];
      ga_emulated_words y = *(const ga_emulated_words *)ga_emulated.tile[b].int32[k];
      even = GA_EMULATED_FLUSH(even + GA_EMULATED_FLUSH(x << 16) * GA_EMULATED_FLUSH(y << 16));
      odd = GA_EMULATED_FLUSH(odd + GA_EMULATED_FLUSH(x & upper) * GA_EMULATED_FLUSH(y & upper));
    }
    ga_emulated_floats *sum = (ga_emulated_floats *)ga_emulated.tile[c].fp32[m];
    *sum = GA_EMULATED_FLUSH(GA_EMULATED_FLUSH(*sum) + GA_EMULATED_FLUSH(even + odd));
  }
}

// TDPBSSD: signed bytes, sums that wrap around.
static void ga_emulated_dot_int8(int c, int a, int b) {
  ga_emulated_match(c, a, b);
  for (int m = 0; m < ga_emulated.config.rows[c]; m++) {
    ga_emulated_words sum = *(const ga_emulated_words *)ga_emulated.tile[c].int32[m];
    for (int k = 0; k < ga_emulated.config.bytes[a] / 4; k++) {
      ga_emulated_words y = *(const ga_emulated_words *)ga_emulated.tile[b].int32[k];
      const int8_t *x = &ga_emulated.tile[a].int8[m][4 * k];
      sum += x[0] * (y << 24 >> 24) + x[1] * (y << 16 >> 24) + x[2] * (y << 8 >> 24) + x[3] * (y >> 24);
    }
    *(ga_emulated_words *)ga_emulated.tile[c].int32[m] = sum;
  }
}

#endif
