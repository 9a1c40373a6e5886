// The packed format of B, shared by all our kernels: panels of GA_PANEL columns with all of K, each one
// contiguous stream.
//
//   [ceil(N/32)][Kp/g][32][g]   elements, padded with zeros
//
// g consecutive k are adjacent and fill 32 bits: 1 for fp32, 2 for bf16 (VDPBF16PS, TDPBF16PS), 4 for int8
// (VPDPBUSD, TDPBSSD). fp16 has g = 1 because it is widened before multiplication. Kp is K rounded up to 32,
// or 64 for int8: whole AMX tile rows. int8 is followed by [ceil(N/32)*32] int32 column sums, which correct
// products of unsigned A.
#ifndef GEMMAUDIT_PACK_H
#define GEMMAUDIT_PACK_H

#include "pool.h"

enum { GA_PANEL = 32 };

static inline int64_t ga_panels(int64_t n) { return (n + GA_PANEL - 1) / GA_PANEL; }

static inline int64_t ga_group(ga_dtype t) { return t == GA_INT8 ? 4 : t == GA_BF16 ? 2 : 1; }

// ga_size is the size of an element of A and B in bytes.
static inline int64_t ga_size(ga_dtype t) { return t == GA_FP32 ? 4 : t == GA_INT8 ? 1 : 2; }

// ga_kp is K with padding.
static inline int64_t ga_kp(ga_dtype t, int64_t k) {
  int64_t unit = t == GA_INT8 ? 64 : 32;
  return (k + unit - 1) / unit * unit;
}

// ga_panel_bytes is the size of a panel, and the distance between panels.
static inline int64_t ga_panel_bytes(ga_dtype t, int64_t k) { return ga_kp(t, k) * GA_PANEL * ga_size(t); }

// ga_column_sums returns the int8 column sums.
static inline const int32_t *ga_column_sums(const void *packed, int64_t n, int64_t k) {
  return (const int32_t *)((const char *)packed + ga_panels(n) * ga_panel_bytes(GA_INT8, k));
}

static inline int64_t ga_packed_bytes(ga_dtype t, int64_t n, int64_t k) {
  return ga_panels(n) * ga_panel_bytes(t, k) + (t == GA_INT8 ? ga_panels(n) * GA_PANEL * 4 : 0);
}

// ga_pack_share packs the share of thread tid of nthreads.
void ga_pack_share(const void *b, int64_t ldb, int transposed, ga_dtype t, int64_t n, int64_t k, void *packed,
                   int tid, int nthreads);

void ga_pack(ga_pool *pool, const void *b, int64_t ldb, int transposed, ga_dtype t, int64_t n, int64_t k, void *packed);

// ga_packed_b returns the launch's packed B. If the launch includes packing, the whole team packs it now;
// kernels call this first.
const void *ga_packed_b(const ga_gemm *g, int tid, int nthreads, ga_team *team);

#endif
