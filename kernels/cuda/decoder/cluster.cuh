// Handing small results to the blocks of a cluster without a fence: stores that count at a
// barrier of the block that they go to. Compute capability 9.0 and up.
#pragma once

#include "ptx.cuh"

// clusterArrive tells the cluster that this block has begun, with a barrier at `bar` for
// `bytes` bytes of stores; clusterWait returns once all have. All threads call both.
__device__ __forceinline__ void clusterArrive(uint32_t bar, uint32_t bytes) {
    if (threadIdx.x == 0) {
        barrierInit(bar, 1);
        barrierInitFence();
        barrierExpect(bar, bytes);
    }
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void clusterWait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// atRank is the address, in the block of rank `rank`, of what is at `local` here.
__device__ __forceinline__ uint32_t atRank(uint32_t local, uint32_t rank) {
    uint32_t remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
    return remote;
}

// send stores 4 or 8 bytes at an address in the cluster; they count at that block's barrier.
__device__ __forceinline__ void send(uint32_t to, uint32_t bar, uint32_t v) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(v), "r"(bar) : "memory");
}
__device__ __forceinline__ void send(uint32_t to, uint32_t bar, uint64_t v) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to), "l"(v), "r"(bar) : "memory");
}

// received waits for all that the barrier was made for.
__device__ __forceinline__ void received(uint32_t bar) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;\n"
        "@!p bra.uni WAIT;\n"
        "}" ::"r"(bar) : "memory");
}
