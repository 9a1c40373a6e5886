// Stretches of memory to shared memory and back, by one instruction of one thread each. Compute
// capability 9.0 and up.
#pragma once

#include "ptx.cuh"

// bulkIn fetches bytes, a multiple of 16 between addresses that are; they count at barrier `bar`.
__device__ __forceinline__ void bulkIn(uint32_t to, const void* from, uint32_t bytes, uint32_t bar, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(bar), "l"(policy)
        : "memory");
}

// onceIf is the priority in L2 of what is read or written once, where that does not stay there.
__device__ __forceinline__ uint64_t onceIf(bool stream) { return stream ? EVICT_FIRST : EVICT_NORMAL; }

// bulkOut writes as many. Threads that wrote them to shared memory run sharedToAsync first, then meet
// at a barrier; the issuing thread commits and waits.
__device__ __forceinline__ void bulkOut(void* to, uint32_t from, uint32_t bytes, uint64_t policy) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to), "r"(from), "r"(bytes), "l"(policy)
                 : "memory");
}
