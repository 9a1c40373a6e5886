// The packed form of B that all of our kernels share: panels of GA_PANEL columns,
// each holding all of K, so that one panel is one contiguous stream.
//
//   [ceil(N/32)][Kp/g][32][g]   elements, zero where there is no B
//
// g consecutive k lie together, as many as fill 32 bits: 1 for fp32, 2 for bf16
// (VDPBF16PS, TDPBF16PS), 4 for int8 (VPDPBUSD, TDPBSSD); 1 for fp16, which is
// widened before it is multiplied. Kp is K rounded up to 32, to 64 for int8: a
// whole number of tile rows of AMX.
// int8 is followed by [ceil(N/32)*32] int32 sums of the columns, by which
// products of unsigned A are corrected.
#ifndef GEMMAUDIT_PACK_H
#define GEMMAUDIT_PACK_H

#include "pool.h"

enum { GA_PANEL = 32 };

static inline int64_t ga_panels(int64_t n) { return (n + GA_PANEL - 1) / GA_PANEL; }

// ga_group is g: how many k lie together.
static inline int64_t ga_group(ga_dtype t) { return t == GA_INT8 ? 4 : t == GA_BF16 ? 2 : 1; }

// ga_size is the bytes of an element of A and B.
static inline int64_t ga_size(ga_dtype t) { return t == GA_FP32 ? 4 : t == GA_INT8 ? 1 : 2; }

// ga_kp is K as it is stored.
static inline int64_t ga_kp(ga_dtype t, int64_t k) {
  int64_t unit = t == GA_INT8 ? 64 : 32;
  return (k + unit - 1) / unit * unit;
}

// ga_panel_bytes is the size of one panel, the distance between two.
static inline int64_t ga_panel_bytes(ga_dtype t, int64_t k) { return ga_kp(t, k) * GA_PANEL * ga_size(t); }

// ga_column_sums is where the sums of int8 begin.
static inline const int32_t *ga_column_sums(const void *packed, int64_t n, int64_t k) {
  return (const int32_t *)((const char *)packed + ga_panels(n) * ga_panel_bytes(GA_INT8, k));
}

// ga_packed_bytes is the size of the whole.
static inline int64_t ga_packed_bytes(ga_dtype t, int64_t n, int64_t k) {
  return ga_panels(n) * ga_panel_bytes(t, k) + (t == GA_INT8 ? ga_panels(n) * GA_PANEL * 4 : 0);
}

// ga_pack_share packs the panels that fall to thread tid of nthreads.
void ga_pack_share(const void *b, int64_t ldb, int transposed, ga_dtype t, int64_t n, int64_t k, void *packed,
                   int tid, int nthreads);

// ga_pack packs with all threads of the pool.
void ga_pack(ga_pool *pool, const void *b, int64_t ldb, int transposed, ga_dtype t, int64_t n, int64_t k, void *packed);

// ga_packed_b is what a kernel calls first: the packed B of the launch, packed by
// the whole team right now when packing belongs to the launch.
const void *ga_packed_b(const ga_gemm *g, int tid, int nthreads, ga_team *team);

#endif
