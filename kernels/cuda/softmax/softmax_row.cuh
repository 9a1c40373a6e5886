// A row in the registers of one block, or of the blocks of a cluster.
#pragma once

#include "softmax.cuh"
#if __CUDA_ARCH__ >= 900
#include "cluster.cuh"
#endif

// mostBlocks is how many blocks a cluster has at most, a power of two.
constexpr int mostBlocks = 16;

#if __CUDA_ARCH__ >= 900
// ClusterMeeting is where the blocks of a cluster leave each other their weights.
struct ClusterMeeting {
    uint64_t barrier;
    uint64_t from[mostBlocks]; // Weights

    __device__ __forceinline__ void begin(uint32_t blocks) { clusterArrive(sharedAddress(&barrier), 8 * blocks); }

    // merged sends this block's weights to all blocks of the cluster and merges what all of them
    // sent; all threads call it.
    __device__ __forceinline__ Weights merged(Weights w, uint32_t rank, uint32_t blocks, float scale2) {
        clusterWait();
        if (threadIdx.x < blocks) {
            const uint64_t word = static_cast<uint64_t>(__float_as_uint(w.sum)) << 32 | __float_as_uint(w.top);
            send(atRank(sharedAddress(&from[rank]), threadIdx.x), atRank(sharedAddress(&barrier), threadIdx.x), word);
        }
        received(sharedAddress(&barrier));
        const int lane = threadIdx.x % mostBlocks;
        Weights part = {lowest(), 0};
        if (lane < blocks) {
            const uint64_t word = *const_cast<volatile uint64_t*>(&from[lane]);
            part = {__uint_as_float(static_cast<uint32_t>(word)), __uint_as_float(static_cast<uint32_t>(word >> 32))};
        }
        return mergedOver<mostBlocks>(part, scale2);
    }
};
#endif

// sharedBy is how many of a row's pieces each of its blocks has, a power of two of them. Where ends have to be
// looked out for, a division takes fewer registers.
template <Form FORM>
__device__ __forceinline__ int sharedBy(int pieces, uint32_t blocks) {
    if constexpr (FORM == Form::ANY) return (pieces + blocks - 1) / blocks;
    return (pieces + static_cast<int>(blocks) - 1) >> __popc(blocks - 1);
}

// rowInRegisters does a row whose pieces each thread has up to VECTORS of: block blockIdx.x,
// or the cluster that it is of.
template <class T, Form FORM, int VECTORS, bool CLUSTER>
__device__ __forceinline__ void rowInRegisters(const SoftmaxParams& p) {
    __shared__ Weights parts[32];
    uint32_t rank = 0, blocks = 1;
#if __CUDA_ARCH__ >= 900
    __shared__ __align__(8) ClusterMeeting meeting;
    if constexpr (CLUSTER) {
        rank = clusterRank(), blocks = clusterSize();
        meeting.begin(blocks);
    }
#endif
    dependentsMayStart();
    waitForPredecessor();

    int number = blockIdx.x / blocks;
    const Row<T, FORM> row(p, number);
    const int share = sharedBy<FORM>(row.pieces, blocks), begin = rank * share, end = min(begin + share, row.pieces);
    const int first = begin + threadIdx.x, visible = min(end, row.visible);
    uint4 x[VECTORS];
#pragma unroll
    for (int j = 0; j < VECTORS; j++) {
        const int v = first + j * blockDim.x;
        if (v < visible) x[j] = row.load(v);
    }
    // The row's ends are the last warp's of the last block, which has the fewest pieces.
    const int ending = static_cast<int>(threadIdx.x) - static_cast<int>(blockDim.x - 32);
    bool atEnd = false;
    float logit = lowest();
    if constexpr (FORM == Form::ENDS) {
        atEnd = rank == blocks - 1 && ending >= 0 && ending < row.ends;
        if (atEnd) logit = widen(row.in[row.endAt(ending)]);
    }
    Weights w = {logit, 0};
#pragma unroll
    for (int j = 0; j < VECTORS; j++) {
        const int v = first + j * blockDim.x;
        if (v >= visible) continue;
        row.mask(x[j], v);
        w.top = largestIn<T>(w.top, x[j]);
    }
    w.top = largestOf<32>(w.top);
#pragma unroll
    for (int j = 0; j < VECTORS; j++) {
        const int v = first + j * blockDim.x;
        if (v < visible) w.sum += weightsIn<T>(x[j], baseOf(w.top), p.scale2);
    }
    if (atEnd) w.sum += weightOfLogit(logit, baseOf(w.top), p.scale2);
    w.sum = sumOf<32>(w.sum);
    w = mergedOverWarps(w, parts, p.scale2);
#if __CUDA_ARCH__ >= 900
    if constexpr (CLUSTER) w = meeting.merged(w, rank, blocks, p.scale2);
#endif
    const Outcome outcome(p, w);
    // Where pieces leave no registers for it, what is known of the row is found out again.
    if constexpr (VECTORS >= 8) asm volatile("" : "+r"(number));
    const Row<T, FORM> to(p, number);
#pragma unroll
    for (int j = 0; j < VECTORS; j++) {
        const int v = first + j * blockDim.x;
        if (v < end) to.store(v, outcome.of<T>(x[j]), outcome.fill, p.stream);
    }
    if constexpr (FORM == Form::ENDS) {
        if (atEnd) to.out[to.endAt(ending)] = narrow<T>(outcome.ofOne(logit));
    }
}
