// Hopper's instructions that CUDA C++ has no names for: barriers that count bytes,
// the tensor memory accelerator (TMA), clusters, register hand-over and dependent
// launches. One function an instruction, named after what it does. The tensor cores
// are in wgmma.cuh.
//
// Addresses of shared memory are 32-bit offsets in the shared window (see
// sharedAddress), as the instructions want them.
#pragma once

#include "integers.cuh"
#include "stream.cuh"

// TensorMap is the driver's CUtensorMap: opaque, and passed by value in a kernel's
// __grid_constant__ parameter.
struct alignas(64) TensorMap {
    char bytes[128];
};

__device__ __forceinline__ uint32_t sharedAddress(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// --- mbarrier -----------------------------------------------------------------------
// A barrier completes a phase when all its arrivals and all its expected bytes are in.
// Waits name the parity of the phase they wait for: a fresh barrier is in phase 0, so
// waiting for parity 1 returns at once.

__device__ __forceinline__ void barrierInit(uint32_t bar, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

// barrierInitFence makes initialised barriers visible to the TMA and to the cluster;
// a barrier among the threads must follow.
__device__ __forceinline__ void barrierInitFence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrierArrive(uint32_t bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

// barrierArriveAt arrives at the barrier of the same offset in the block of rank
// `rank` of this cluster, one's own included. It hands back memory that wgmma has read;
// it does not publish ordinary writes to the other block, which would cost a fence of
// the whole GPU at each step.
__device__ __forceinline__ void barrierArriveAt(uint32_t bar, uint32_t rank) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
        "}" ::"r"(bar), "r"(rank) : "memory");
}

// barrierExpect arrives once and adds bytes to what the phase waits for.
__device__ __forceinline__ void barrierExpect(uint32_t bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

// barrierTest returns whether the phase of the given parity has completed, after
// waiting for it for a while that the hardware chooses.
__device__ __forceinline__ bool barrierTest(uint32_t bar, uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}" : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    return done != 0;
}

__device__ __forceinline__ void barrierWait(uint32_t bar, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@p bra.uni DONE;\n"
        "bra.uni WAIT;\n"
        "DONE:\n"
        "}" ::"r"(bar), "r"(parity) : "memory");
}

// --- tensor memory accelerator ------------------------------------------------------
// x is the column and y the row of the box's first element, in elements; what leaves
// the matrix reads as zero and is not written. One thread issues.

__device__ __forceinline__ void prefetchMap(const TensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Eviction priorities in L2, as createpolicy encodes them for the whole access.
constexpr uint64_t EVICT_NORMAL = 0x1000000000000000ull;
constexpr uint64_t EVICT_FIRST = 0x12F0000000000000ull;
constexpr uint64_t EVICT_LAST = 0x14F0000000000000ull;

// loadBox fetches a box to shared memory; its bytes count at barrier `bar`.
__device__ __forceinline__ void loadBox(uint32_t to, const TensorMap *map, int x, int y, uint32_t bar,
                                        uint64_t policy = EVICT_NORMAL) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar), "l"(policy)
        : "memory");
}

// loadBoxMulticast does so to the same offset of every block of the cluster whose bit
// is set in blocks; the bytes count at the barrier of the same offset in each.
__device__ __forceinline__ void loadBoxMulticast(uint32_t to, const TensorMap *map, int x, int y, uint32_t bar,
                                                 uint16_t blocks, uint64_t policy = EVICT_NORMAL) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
        " [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar), "h"(blocks), "l"(policy)
        : "memory");
}

// storeBox writes a box from shared memory. Threads that wrote it there run
// sharedToAsync first, then meet at a barrier; the issuing thread commits and waits.
__device__ __forceinline__ void storeBox(const TensorMap *map, uint32_t from, int x, int y,
                                         uint64_t policy = EVICT_NORMAL) {
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3}], [%1], %4;" ::"l"(map),
        "r"(from), "r"(x), "r"(y), "l"(policy) : "memory");
}

__device__ __forceinline__ void commitStores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// waitStoresRead waits until at most N of this thread's groups of stores still read
// shared memory; waitStores, until at most N are not yet written.
template <int N>
__device__ __forceinline__ void waitStoresRead() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
template <int N>
__device__ __forceinline__ void waitStores() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// sharedToAsync orders this thread's ordinary writes to shared memory before what the
// TMA and the tensor cores read there after the next barrier.
__device__ __forceinline__ void sharedToAsync() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- clusters -----------------------------------------------------------------------

__device__ __forceinline__ uint32_t clusterRank() {
    uint32_t r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

__device__ __forceinline__ uint32_t clusterSize() {
    uint32_t r;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r));
    return r;
}

// clusterSync is a barrier among all threads of the cluster.
__device__ __forceinline__ void clusterSync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// --- threads, registers, launches ---------------------------------------------------

// groupSync is a barrier among `threads` threads, and groupArrive arrives at it without
// waiting; id 0 is __syncthreads, 1 to 15 are free.
__device__ __forceinline__ void groupSync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void groupArrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// electOne is true in one lane of a converged warp.
__device__ __forceinline__ bool electOne() {
    uint32_t elected;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "elect.sync _|p, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}" : "=r"(elected));
    return elected != 0;
}

// registersUp and registersDown set the registers of each thread of this warpgroup, a
// multiple of 8 up to 256.
template <int N>
__device__ __forceinline__ void registersUp() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
__device__ __forceinline__ void registersDown() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// --- ordered global memory ----------------------------------------------------------

__device__ __forceinline__ uint32_t loadAcquire(const uint32_t *p) {
    uint32_t v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void storeRelease(uint32_t *p, uint32_t v) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// storeMatrices4 writes four 8×8 matrices of 16-bit elements, held as the tensor cores
// hold them, to shared memory: lane l gives the address of row l%8 of matrix l/8.
__device__ __forceinline__ void storeMatrices4(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}
// storeMatrices4Transposed writes the transposes.
__device__ __forceinline__ void storeMatrices4Transposed(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d) : "memory");
}
