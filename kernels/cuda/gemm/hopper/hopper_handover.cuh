// How a block of either pipeline tells the one that finishes a cut tile that its sums are there.
#pragma once

#include "ptx.cuh"

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
