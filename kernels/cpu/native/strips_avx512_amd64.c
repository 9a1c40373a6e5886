// Strips of 4-bit weights with AVX-512 F, BW, DQ and VL: VPMADDUBSW as with AVX2.
#include "strips.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,sse,sse2")
#include "strips_avx512_amd64.h"

GA_INLINE words dot(words sum, words codes, words a) {
  return (words)_mm512_add_epi16((__m512i)sum, _mm512_maddubs_epi16((__m512i)codes, (__m512i)a));
}
GA_INLINE words total_of(words sum, int by) { return (words)_mm512_madd_epi16((__m512i)sum, _mm512_set1_epi16((short)by)); }

#include "strips_lanes.h"

const ga_form ga_avx512_strips = GA_STRIP_FORM("avx512 vpmaddubsw");
GA_TARGET_END
