// How a block of either pipeline leaves the sums of a cut tile to the one that finishes it.
#pragma once

#include "ptx.cuh"
#include "sums.cuh"

// putPartial writes the sums of a thread, four a vector, and addPartial adds what another thread of
// the same place wrote. The vectors of a warpgroup's threads lie side by side. They go by L2,
// where the other block is.
template <int VECTORS, class Acc>
__device__ __forceinline__ void putPartial(float4 *to, const Acc *sum) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const Acc *d = sum + 4 * i;
        __stcg(to + i * 128, make_float4(asFloat(d[0]), asFloat(d[1]), asFloat(d[2]), asFloat(d[3])));
    }
}

template <int VECTORS, class Acc>
__device__ __forceinline__ void addPartial(const float4 *from, Acc *sum) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        Acc *d = sum + 4 * i;
        const float4 v = __ldcg(from + i * 128);
        addTo(d[0], v.x);
        addTo(d[1], v.y);
        addTo(d[2], v.z);
        addTo(d[3], v.w);
    }
}

// GA_HAND_OVER says that the sums may be read which the threads of a warpgroup wrote before they
// meet at a barrier. A macro, as the flag's address is best found by one thread, after the fence.
#define GA_HAND_OVER(BARRIER, FLAG)     \
    groupSync(BARRIER, 128);            \
    if (threadIdx.x % 128 == 0) {       \
        __threadfence();                \
        storeRelease(FLAG, 1);          \
    }

// awaitHandOver waits for that and takes the flag down.
__device__ __forceinline__ void awaitHandOver(uint32_t *flag) {
    while (loadAcquire(flag) == 0) {
    }
    *flag = 0;
}
