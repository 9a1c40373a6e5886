#include "pack.h"

#include <string.h>

// Elements are copied as integers of their size; only int8 values are read, for the sums.

static void pack_kn_1(const char *b, int64_t ldb, int64_t size, int64_t k, int64_t cols, char *out) {
  int64_t row = GA_PANEL * size;
  for (int64_t i = 0; i < k; i++, out += row) {
    if (cols == GA_PANEL) {
      if (size == 4) memcpy(out, b + i * ldb * 4, GA_PANEL * 4);
      else memcpy(out, b + i * ldb * 2, GA_PANEL * 2);
    } else {
      memcpy(out, b + i * ldb * size, (size_t)(cols * size));
      memset(out + cols * size, 0, (size_t)(row - cols * size));
    }
  }
}

static void pack_kn_2(const uint16_t *b, int64_t ldb, int64_t k, int64_t cols, uint16_t *out) {
  static const uint16_t zero[GA_PANEL];
  uint16_t edge[2][GA_PANEL];
  for (int64_t i = 0; i < k; i += 2, out += 2 * GA_PANEL) {
    const uint16_t *r0 = b + i * ldb, *r1 = i + 1 < k ? r0 + ldb : zero;
    if (cols < GA_PANEL) {
      memset(edge, 0, sizeof edge);
      memcpy(edge[0], r0, (size_t)cols * 2);
      if (i + 1 < k) memcpy(edge[1], r1, (size_t)cols * 2);
      r0 = edge[0];
      r1 = edge[1];
    }
    for (int j = 0; j < GA_PANEL; j++) {
      out[2 * j] = r0[j];
      out[2 * j + 1] = r1[j];
    }
  }
}

static void pack_kn_4(const int8_t *b, int64_t ldb, int64_t k, int64_t cols, int8_t *out, int32_t *sums) {
  int8_t row[4][GA_PANEL];
  memset(row, 0, sizeof row);
  for (int64_t i = 0; i < k; i += 4, out += 4 * GA_PANEL) {
    for (int r = 0; r < 4; r++) {
      if (i + r >= k) memset(row[r], 0, GA_PANEL);
      else if (cols == GA_PANEL) memcpy(row[r], b + (i + r) * ldb, GA_PANEL);
      else memcpy(row[r], b + (i + r) * ldb, (size_t)cols);
    }
    for (int j = 0; j < GA_PANEL; j++) {
      out[4 * j] = row[0][j];
      out[4 * j + 1] = row[1][j];
      out[4 * j + 2] = row[2][j];
      out[4 * j + 3] = row[3][j];
      sums[j] += row[0][j] + row[1][j] + row[2][j] + row[3][j];
    }
  }
}

// In N×K, bf16 and int8 groups already are contiguous 32-bit words. Packing transposes words in blocks that
// keep 32 source rows and the destination in L1. Incomplete words at the end of K are assembled separately.
enum { BLOCK = 16 };

static void transpose_words(const char *b, int64_t stride, int64_t words, int64_t cols, uint32_t *out) {
  for (int64_t w = 0; w < words; w += BLOCK) {
    int64_t block = words - w < BLOCK ? words - w : BLOCK;
    uint32_t tile[GA_PANEL][BLOCK];
    for (int64_t j = 0; j < cols; j++) memcpy(tile[j], b + j * stride + w * 4, (size_t)block * 4);
    for (int64_t j = cols; j < GA_PANEL; j++) memset(tile[j], 0, sizeof tile[j]);
    for (int64_t i = 0; i < block; i++)
      for (int j = 0; j < GA_PANEL; j++) out[(w + i) * GA_PANEL + j] = tile[j][i];
  }
}

static void transpose_halves(const uint16_t *b, int64_t ldb, int64_t k, int64_t cols, uint16_t *out) {
  for (int64_t w = 0; w < k; w += 2 * BLOCK) {
    int64_t block = k - w < 2 * BLOCK ? k - w : 2 * BLOCK;
    uint16_t tile[GA_PANEL][2 * BLOCK];
    for (int64_t j = 0; j < cols; j++) memcpy(tile[j], b + j * ldb + w, (size_t)block * 2);
    for (int64_t j = cols; j < GA_PANEL; j++) memset(tile[j], 0, sizeof tile[j]);
    for (int64_t i = 0; i < block; i++)
      for (int j = 0; j < GA_PANEL; j++) out[(w + i) * GA_PANEL + j] = tile[j][i];
  }
}

static void pack_nk(const char *b, int64_t ldb, ga_dtype t, int64_t k, int64_t cols, char *out, int32_t *sums) {
  if (t == GA_FP16) {
    transpose_halves((const uint16_t *)b, ldb, k, cols, (uint16_t *)out);
    return;
  }
  int64_t g = ga_group(t), size = ga_size(t), whole = k / g, rest = k % g;
  transpose_words(b, ldb * size, whole, cols, (uint32_t *)out);
  if (rest > 0) {
    char *last = out + whole * GA_PANEL * 4;
    memset(last, 0, GA_PANEL * 4);
    for (int64_t j = 0; j < cols; j++)
      memcpy(last + j * 4, b + (j * ldb + whole * g) * size, (size_t)(rest * size));
  }
  for (int64_t j = 0; sums != NULL && j < cols; j++) {
    const int8_t *row = (const int8_t *)b + j * ldb;
    int32_t sum = 0;
    for (int64_t i = 0; i < k; i++) sum += row[i];
    sums[j] = sum;
  }
}

void ga_pack_share(const void *b, int64_t ldb, int transposed, ga_dtype t, int64_t n, int64_t k, void *packed,
                   int tid, int nthreads) {
  int64_t from, to, size = ga_size(t), panel = ga_panel_bytes(t, k), g = ga_group(t);
  int64_t used = (k + g - 1) / g * g * GA_PANEL * size;
  ga_share(ga_panels(n), nthreads, tid, &from, &to);
  for (int64_t p = from; p < to; p++) {
    int64_t first = p * GA_PANEL, cols = n - first < GA_PANEL ? n - first : GA_PANEL;
    const char *src = (const char *)b + (transposed ? first * ldb : first) * size;
    char *out = (char *)packed + p * panel;
    int32_t *sums = NULL;
    if (t == GA_INT8) {
      sums = (int32_t *)((char *)packed + ga_panels(n) * panel) + first;
      memset(sums, 0, GA_PANEL * 4);
    }
    if (transposed) pack_nk(src, ldb, t, k, cols, out, sums);
    else if (t == GA_BF16) pack_kn_2((const uint16_t *)src, ldb, k, cols, (uint16_t *)out);
    else if (t == GA_INT8) pack_kn_4((const int8_t *)src, ldb, k, cols, (int8_t *)out, sums);
    else pack_kn_1(src, ldb, size, k, cols, out);
    memset(out + used, 0, (size_t)(panel - used));
  }
}

typedef struct {
  const void *b;
  int64_t ldb;
  int transposed;
  ga_dtype t;
  int64_t n, k;
  void *packed;
} pack_job;

static void pack_task(void *arg, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  const pack_job *j = arg;
  ga_pack_share(j->b, j->ldb, j->transposed, j->t, j->n, j->k, j->packed, tid, nthreads);
}

void ga_pack(ga_pool *pool, const void *b, int64_t ldb, int transposed, ga_dtype t, int64_t n, int64_t k, void *packed) {
  pack_job job = {b, ldb, transposed, t, n, k, packed};
  ga_pool_run(pool, ga_pool_threads(pool), pack_task, &job);
}

const void *ga_packed_b(const ga_gemm *g, int tid, int nthreads, ga_team *team) {
  if (g->b_raw == NULL) return g->b;
  ga_pack_share(g->b_raw, g->ldb, g->b_transposed, g->dtype, g->n, g->k, g->b_inside, tid, nthreads);
  ga_barrier(team);
  return g->b_inside;
}
