// Few rows of fp16 times 4-bit weights with AVX-512's VDPBF16PS. An fp16 number is the sum of two bf16
// numbers: its upper eight significant bits and the other three. Two dot products then share one permutation;
// floats would take two of each.
#include "quantised.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c,sse,sse2")
#define TERMS 2
#include "quantised_pairs_avx512_amd64.h"
#include "quantised_few.h"

// upper and lower are the two parts; for infinity and NaN, lower is zero.
GA_INLINE lanes upper(lanes x) { return (lanes)((words)x & (int32_t)0xffff0000); }
GA_INLINE lanes lower(lanes x) {
  lanes rest = x - upper(x);
  return pick(rest == rest, rest, (lanes){0});
}

GA_INLINE lanes floats_at(const void *a, int64_t from, int64_t k) {
  return from + LANES <= k ? load(GA_FP16, a, from) : from < k ? load_some(GA_FP16, a, from, k - from) : (lanes){0};
}

static void split_pack_a(const ga_gemm *g, const void *a, int64_t kp, void *out, int64_t pitch) {
  char *to = out;
  for (int64_t i = 0; i < kp; i += UNIT, to += 2 * pitch) {
    lanes x = floats_at(a, i, g->k), y = floats_at(a, i + LANES, g->k);
    *(lanes_anywhere *)to = join(upper(x), upper(y));
    *(lanes_anywhere *)(to + pitch) = join(lower(x), lower(y));
  }
}

const ga_few ga_avx512_split_few = {"avx512 vpermw 2 vdpbf16ps", 4, LANES, split_pack_a, few_multiply, quantised_total};
GA_TARGET_END
