// The blocked kernels over paths: tiled for any M, gemv for few rows.
#ifndef GEMMAUDIT_TILED_H
#define GEMMAUDIT_TILED_H

#include "path.h"

// g->plan is the path.
void ga_tiled(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);
void ga_gemv(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);

// ga_gemv_parts is the number of parts of K that gemv sums on nthreads threads; 1 if it does not split K.
int ga_gemv_parts(const ga_gemm *g, int nthreads);

// The division of a block's rows into tiles, as evenly as possible: a remaining tile of one or two rows would
// run far below the normal speed.
typedef struct {
  int64_t count, each, longer; // the first `longer` tiles have each+1 rows
} ga_rows;

static inline ga_rows ga_rows_of(int64_t m, int rows) {
  int64_t count = (m + rows - 1) / rows;
  return (ga_rows){count, m / count, m % count};
}

static inline int64_t ga_row_begin(ga_rows r, int64_t tile) { return tile * r.each + (tile < r.longer ? tile : r.longer); }

static inline int ga_row_count(ga_rows r, int64_t tile) { return (int)(r.each + (tile < r.longer)); }

static inline int64_t ga_tile_bytes(int64_t rows, int64_t words) { return rows * words * 4; }

#endif
