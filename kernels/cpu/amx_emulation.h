// Tile registers in software: eight of 16 rows of 64 bytes a thread, with the
// checks that the CPU makes (as aborts, where it raises an exception) and the
// arithmetic that Intel's manual gives for each instruction.
#ifndef GEMMAUDIT_AMX_EMULATION_H
#define GEMMAUDIT_AMX_EMULATION_H

#include <math.h>
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

// Subnormal numbers are zero, going in and coming out.
static inline float ga_emulated_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static inline float ga_emulated_widen(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return ga_emulated_flush(x);
}

// TDPBF16PS: the even and the odd terms of all k are summed apart, by fused
// multiply-adds, and their sum is added to C.
static inline void ga_emulated_dot_bf16(int c, int a, int b) {
  ga_emulated_match(c, a, b);
  for (int m = 0; m < ga_emulated.config.rows[c]; m++)
    for (int n = 0; n < ga_emulated.config.bytes[c] / 4; n++) {
      float even = 0, odd = 0;
      for (int k = 0; k < ga_emulated.config.bytes[a] / 4; k++) {
        const uint16_t *x = &ga_emulated.tile[a].half[m][2 * k], *y = &ga_emulated.tile[b].half[k][2 * n];
        even = ga_emulated_flush(fmaf(ga_emulated_widen(x[0]), ga_emulated_widen(y[0]), even));
        odd = ga_emulated_flush(fmaf(ga_emulated_widen(x[1]), ga_emulated_widen(y[1]), odd));
      }
      float *sum = &ga_emulated.tile[c].fp32[m][n];
      *sum = ga_emulated_flush(ga_emulated_flush(*sum) + ga_emulated_flush(even + odd));
    }
}

// TDPBSSD: signed bytes, sums that wrap around.
static inline void ga_emulated_dot_int8(int c, int a, int b) {
  ga_emulated_match(c, a, b);
  for (int m = 0; m < ga_emulated.config.rows[c]; m++)
    for (int n = 0; n < ga_emulated.config.bytes[c] / 4; n++) {
      uint32_t sum = (uint32_t)ga_emulated.tile[c].int32[m][n];
      for (int k = 0; k < ga_emulated.config.bytes[a]; k++)
        sum += (uint32_t)(ga_emulated.tile[a].int8[m][k] * ga_emulated.tile[b].int8[k / 4][4 * n + k % 4]);
      ga_emulated.tile[c].int32[m][n] = (int32_t)sum;
    }
}

#endif
