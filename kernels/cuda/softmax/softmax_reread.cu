// arch: 75 80 86 89 90a ptx90
//
// softmax_reread: rows of any length, in two passes. Compute capability 7.5 and up.
//
// Threads   512 a block; `each` blocks share a row, and groups of so many blocks walk over the rows.
//           A block has a stretch of the row, of which its threads take pieces of 16 bytes, four at
//           a time.
// Memory    Each element twice in, once out. The first pass keeps the largest logit and the sum of
//           weights relative to it while it goes; the second goes the other way, so that it begins
//           with what was read last. The plan takes so many blocks a row that the rows under way
//           fit L2 where that is possible, and then memory sees one pass only.
// Meeting   Within a block over shared memory. Blocks of a row hand each other their weights through
//           global memory, a word of 8 bytes for each pair of blocks: a word of zeros is not there yet,
//           any other is the complement of largest and sum. Who reads a word leaves zeros, and
//           two sets of words take turns: a block that writes to a set for the second time has
//           heard from all others since they emptied it. All blocks of a launch must be on the
//           GPU at the same time.

#include "softmax.cuh"

namespace ga_softmax_reread {

constexpr int THREADS = 512, AT_ONCE = 4;

// wordOf cannot be zero: that would be the complement of a NaN that no arithmetic makes.
__device__ __forceinline__ uint64_t wordOf(Weights w) {
    return ~(static_cast<uint64_t>(__float_as_uint(w.sum)) << 32 | __float_as_uint(w.top));
}
__device__ __forceinline__ Weights weightsOf(uint64_t word) {
    return {__uint_as_float(static_cast<uint32_t>(~word)), __uint_as_float(static_cast<uint32_t>(~word >> 32))};
}

__device__ __forceinline__ void give(uint64_t* to, uint64_t word) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}

// take waits for a word and leaves zeros.
__device__ __forceinline__ uint64_t take(uint64_t* from) {
    uint64_t word;
    do {
        asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
    } while (word == 0);
    *from = 0;
    return word;
}

// mergedOverBlocks merges the weights of the `blocks` blocks of a row; set is theirs: what
// block i takes begins at i · blocks.
__device__ __forceinline__ Weights mergedOverBlocks(Weights w, uint64_t* set, int rank, int blocks, Weights* parts, float scale2) {
    Weights mine = {lowest(), 0};
    for (int other = threadIdx.x; other < blocks; other += THREADS) give(set + other * blocks + rank, wordOf(w));
    for (int other = threadIdx.x; other < blocks; other += THREADS) {
        const Weights theirs = weightsOf(take(set + rank * blocks + other));
        const float top = fmaxf(mine.top, theirs.top), base = baseOf(top);
        mine = {top, rebased(mine, base, scale2) + rebased(theirs, base, scale2)};
    }
    return mergedOverWarps(mergedOver<32>(mine, scale2), parts, scale2);
}

template <class T, Form FORM>
__device__ __forceinline__ void run(const SoftmaxParams& p) {
    __shared__ Weights parts[2][32], shares[2][32];
    const int blocks = p.each, group = blockIdx.x / blocks, rank = blockIdx.x % blocks, groups = gridDim.x / blocks;
    uint64_t* const sets = p.exchange + group * 2 * blocks * blocks;
    dependentsMayStart();
    waitForPredecessor();

    int turn = 0;
    for (int at = group; at < p.rows; at += groups, turn ^= 1) {
        const Row<T, FORM> row(p, at);
        const int share = (row.pieces + blocks - 1) / blocks, begin = min(rank * share, row.pieces), end = min(begin + share, row.pieces);
        const int visible = min(end, row.visible);
        const int steps = (end - begin + THREADS * AT_ONCE - 1) / (THREADS * AT_ONCE);
        uint4 x[AT_ONCE];

        Weights w = {lowest(), 0};
#pragma unroll 1
        for (int step = 0; step < steps; step++) {
            const int first = begin + step * THREADS * AT_ONCE + threadIdx.x;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                const int v = first + j * THREADS;
                if (v < visible) x[j] = row.load(v);
            }
            float top = w.top;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                const int v = first + j * THREADS;
                if (v >= visible) continue;
                row.mask(x[j], v);
                top = largestIn<T>(top, x[j]);
            }
            const float base = baseOf(top);
            w = {top, rebased(w, base, p.scale2)};
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                const int v = first + j * THREADS;
                if (v < visible) w.sum += weightsIn<T>(x[j], base, p.scale2);
            }
        }
        w = mergedOverWarps(mergedOver<32>(w, p.scale2), parts[turn], p.scale2);
        if (blocks > 1) w = mergedOverBlocks(w, sets + turn * blocks * blocks, rank, blocks, shares[turn], p.scale2);

        const Outcome outcome(p, w);
#pragma unroll 1
        for (int step = steps - 1; step >= 0; step--) {
            const int first = begin + step * THREADS * AT_ONCE + threadIdx.x;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                const int v = first + j * THREADS;
                if (v < visible) x[j] = row.load(v);
            }
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                const int v = first + j * THREADS;
                if (v >= end) continue;
                if (v < visible) row.mask(x[j], v);
                row.store(v, outcome.of<T>(x[j]), outcome.fill, p.stream);
            }
        }
    }
}

#define SOFTMAX_REREAD(name, T, suffix, form)                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, 2)                          \
        ga_softmax_reread_##name##suffix(const __grid_constant__ SoftmaxParams p) {   \
        run<T, form>(p);                                                             \
    }
#define SOFTMAX_REREAD_OF(name, T)      \
    SOFTMAX_REREAD(name, T, , Form::ANY)    \
    SOFTMAX_REREAD(name, T, _whole, Form::WHOLE)

SOFTMAX_TYPES(SOFTMAX_REREAD_OF)

}  // namespace ga_softmax_reread
