// The CPU's tile registers, or with GEMMAUDIT_AMX_EMULATION (build tag amxemu) an emulation, for testing
// kernel logic without AMX.
#ifndef GEMMAUDIT_AMX_TILE_H
#define GEMMAUDIT_AMX_TILE_H

#include <stdint.h>

// The operand of LDTILECFG: rows and bytes per row of each tile.
typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} ga_tile_config;

enum { GA_TILE_ROWS = 16, GA_TILE_ROW_BYTES = 64, GA_TILE_BYTES = 1024 };

#if defined(GEMMAUDIT_AMX_EMULATION)

#include "amx_emulation.h"
#define GA_TILE_CODE
#define TILE_CONFIG(config) ga_emulated_config(config)
#define TILE_RELEASE() ga_emulated_release()
#define TILE_ZERO(t) ga_emulated_zero(t)
#define TILE_LOAD(t, p, stride) ga_emulated_load(t, p, stride)
#define TILE_STREAM(t, p, stride) ga_emulated_load(t, p, stride)
#define TILE_STORE(t, p, stride) ga_emulated_store(t, p, stride)
#define TILE_DOT_BF16(c, a, b) ga_emulated_dot_bf16(c, a, b)
#define TILE_DOT_INT8(c, a, b) ga_emulated_dot_int8(c, a, b)

#elif defined(__x86_64__)

#include <immintrin.h>
// The compiler's tile intrinsics do not declare memory reads; TILE_FENCE keeps earlier stores before tile
// loads.
#define GA_TILE_CODE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16,amx-int8")))
#define TILE_CONFIG(config) _tile_loadconfig(config)
#define TILE_RELEASE() _tile_release()
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, p, stride) _tile_loadd(t, p, stride)
// TILELOADDT1 keeps data in L2 and out of L1.
#define TILE_STREAM(t, p, stride) _tile_stream_loadd(t, p, stride)
#define TILE_STORE(t, p, stride) _tile_stored(t, p, stride)
#define TILE_DOT_BF16(c, a, b) _tile_dpbf16ps(c, a, b)
#define TILE_DOT_INT8(c, a, b) _tile_dpbssd(c, a, b)

#endif

#define TILE_FENCE() __asm__ volatile("" ::: "memory")

#if defined(GEMMAUDIT_AMX_EMULATION) || defined(__x86_64__)
#define GA_HAVE_TILES 1
#else
#define GA_HAVE_TILES 0
#endif

// ga_tiles gives all tiles the same number of rows, except the B tiles in the bit mask full, which have 16.
static inline ga_tile_config ga_tiles(int rows, unsigned full) {
  ga_tile_config c = {.palette = 1};
  for (int t = 0; t < 8; t++) {
    c.bytes[t] = GA_TILE_ROW_BYTES;
    c.rows[t] = (uint8_t)(full >> t & 1 ? GA_TILE_ROWS : rows);
  }
  return c;
}

#endif
