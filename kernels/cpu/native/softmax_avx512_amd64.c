#include "softmax.h"
#include "target.h"

GA_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,sse,sse2")
#include "softmax_avx512_amd64.h"

#include "softmax_lanes.h"

const ga_softmax_kernels ga_avx512_softmax = {softmax_block, softmax_reread, softmax_naive};
GA_TARGET_END
