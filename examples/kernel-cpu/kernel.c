// An fp32 GEMM for the CPU as a shared library.
//
// B is packed ahead of time into panels of K×WIDTH, padded with zeros beyond column N, for sequential reads
// in both layouts. Each thread computes every threads-th panel in blocks of ROWS×WIDTH sums held in
// registers. A block performs 2·ROWS·WIDTH operations per ROWS+WIDTH elements read.
#include "gemmaudit_kernel.h"

#include <stdio.h>

enum { ROWS = 6, WIDTH = 32 };

static int64_t panels(const gemmaudit_problem *p) { return (p->n + WIDTH - 1) / WIDTH; }

static int supports(const gemmaudit_problem *p, char *error) {
  if (p->dtype == GEMMAUDIT_FP32) return 0;
  snprintf(error, GEMMAUDIT_ERROR_BYTES, "it computes only fp32");
  return 1;
}

static int64_t packed_bytes(const gemmaudit_problem *p) {
  return panels(p) * WIDTH * p->k * (int64_t)sizeof(float);
}

static int prepare(const gemmaudit_problem *p, const void *b, void *packed, void *stream, char *error) {
  (void)stream, (void)error;
  const float *from = b;
  float *to = packed;
  for (int64_t j0 = 0; j0 < p->n; j0 += WIDTH)
    for (int64_t k = 0; k < p->k; k++)
      for (int64_t j = j0; j < j0 + WIDTH; j++) {
        float v = 0;
        if (j < p->n) v = p->b_transposed ? from[j * p->ldb + k] : from[k * p->ldb + j];
        *to++ = v;
      }
  return 0;
}

static void block(const gemmaudit_problem *p, const float *a, const float *panel, float *c, int64_t rows, int64_t columns) {
  // Rows beyond the end read the last row again and are not written.
  const float *row[ROWS];
  for (int i = 0; i < ROWS; i++) row[i] = a + (i < rows ? i : rows - 1) * p->lda;
  float sum[ROWS][WIDTH] = {{0}};
  for (int64_t k = 0; k < p->k; k++)
    for (int i = 0; i < ROWS; i++)
      for (int j = 0; j < WIDTH; j++) sum[i][j] += row[i][k] * panel[k * WIDTH + j];
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) c[i * p->ldc + j] = sum[i][j];
}

static void run_team(const gemmaudit_launch *l, const gemmaudit_team *team) {
  const gemmaudit_problem *p = &l->problem;
  for (int64_t at = team->thread; at < panels(p); at += team->threads) {
    const float *panel = (const float *)l->b + at * WIDTH * p->k;
    int64_t columns = p->n - at * WIDTH < WIDTH ? p->n - at * WIDTH : WIDTH;
    for (int64_t i = 0; i < p->m; i += ROWS) {
      int64_t rows = p->m - i < ROWS ? p->m - i : ROWS;
      block(p, (const float *)l->a + i * p->lda, panel, (float *)l->c + i * p->ldc + at * WIDTH, rows, columns);
    }
  }
}

const gemmaudit_kernel *gemmaudit_kernel_get(void) {
  static const gemmaudit_kernel kernel = {
      .abi = GEMMAUDIT_KERNEL_ABI,
      .device = GEMMAUDIT_CPU,
      .name = "example",
      .description = "example of a brought kernel: fp32, blocks of 6x32, packed B",
      .supports = supports,
      .packed_bytes = packed_bytes,
      .prepare = prepare,
      .run_team = run_team,
  };
  return &kernel;
}
