// Strips of 4-bit weights with AVX-512's VPDPBUSD. A separate file for the reason given in path_avx512_dot_amd64.c.
#include "strips.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,sse,sse2")
#include "strips_avx512_amd64.h"

GA_INLINE words dot(words sum, words codes, words a) {
  return (words)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)codes, (__m512i)a);
}
GA_INLINE words total_of(words sum, int by) { return by == 1 ? sum : sum << 8; }

#include "strips_lanes.h"

const ga_form ga_avx512_vnni_strips = GA_STRIP_FORM("avx512 vpdpbusd");
GA_TARGET_END
