// arch: 90a
//
// fused_ring: fused_product.cu for 16-bit types on compute capability 9.0, where weights
// flow through rings in shared memory: a block takes no registers for them and so has
// more bytes in flight, and asks for the next ones while all of these are on their way.
//
// Block: eight consumer warps and one producer warp, two blocks a multiprocessor. A block
// takes every gridDim.x-th pair of rows of weights, of a gated unit one of gate and the one
// of up that belongs to it. A stage is up to 8 KiB of both rows: copies of 1 KiB reach two
// thirds of what memory gives. Lane l of warp w has bytes 512w+16l … 512w+16l+15 of each
// 4 KiB.
//
// mma.sync multiplies 16 rows by 8 columns. Here eight of its rows are the groups g of four
// lanes' pieces of the one row of weights, eight those of the other, and its columns are the
// groups' pieces of the row of A, so that lanes read adjacent bytes. What counts is where
// row and column are of the same group, and its sum over the groups.
//
// Experts: pairs of all units side by side are one longer product. Outputs that are added up
// come one expert after the other, BATCH pairs at a time: the row is the next expert's then,
// and each warp adds its sums to what it has kept in shared memory.
//
// Overlapped launches: a block of the next kernel takes the place of each that ends, and
// fills its ring while the last of this kernel's sums are added up, written and waited for
// and while the norm is computed. So rings of two blocks fill a multiprocessor, but no
// third block fits: a kernel's blocks lie evenly on all of them.
//
// Dynamic shared memory: the ring, the row up to a multiple of 4 KiB, sums of BATCH pairs
// [pair][row][warp], a float a warp, then the barriers.
#include "fused_product.cuh"
#include "ptx.cuh"

namespace gemv {

constexpr int RING_WARPS = 8;
constexpr int STEP = RING_WARPS * 512;      // bytes of a row that the warps take at once
constexpr int STEPS = 2;                    // of a row in a stage, at most
constexpr int CONSUMERS = 32 * RING_WARPS;  // threads
constexpr int BATCH = 64;                   // pairs whose sums are added up at once
constexpr int RING_KEPT = 4;                // fours of the norm's weights in registers: k 4096

__device__ __forceinline__ void fetchBytes(uint32_t to, const void *from, int bytes, uint32_t bar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(bar), "l"(EVICT_FIRST)
        : "memory");
}

// Share is what a block has of a product.
template <Experts E>
struct Share {
    int rowBytes, part;  // of a row, and of one in a stage
    int segments, pairs; // stages of a pair, and pairs of this block

    __device__ __forceinline__ explicit Share(const Params<E> &p) {
        rowBytes = static_cast<int>(p.ldb) * 2;
        part = min(STEPS * STEP, (rowBytes + STEP - 1) / STEP * STEP);
        segments = (rowBytes + part - 1) / part;
        const int all = (p.half ? p.half : (p.n + 1) / 2) * sideBySide<E>(p);
        pairs = (all - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
    }
};

// firstRow is the first row of a block's i-th pair.
__device__ __forceinline__ int firstRow(const FusedParams &p, int i) {
    return (p.half ? 1 : 2) * static_cast<int>(blockIdx.x + i * gridDim.x);
}

// produce is one thread's: it fetches all that the block multiplies.
template <Experts E>
__device__ __forceinline__ void produce(const Params<E> &p, const Share<E> &s, uint32_t ring, uint32_t full, uint32_t empty) {
    int left = max(0, s.pairs * s.segments * addedUp<E>(p) - p.early); // fetches until dependents may start
    int stage = 0, parity = 1;
    auto fetchPair = [&](const char *weights, int row) {
        const int other = p.half ? row + p.half : row + 1;
        const char *from = weights + static_cast<int64_t>(row) * s.rowBytes;
        const int64_t second = other < p.n ? static_cast<int64_t>(other - row) * s.rowBytes : 0; // 0: there is none
        for (int at = 0; at < s.rowBytes; at += s.part) {
            if (left-- == 0) dependentsMayStart();
            barrierWait(empty + 8 * stage, parity);
            const uint32_t to = ring + stage * (2 * s.part), bar = full + 8 * stage;
            const int bytes = min(s.part, s.rowBytes - at);
            barrierExpect(bar, second ? 2 * bytes : bytes);
            fetchBytes(to, from + at, bytes, bar);
            if (second) fetchBytes(to + s.part, from + second + at, bytes, bar);
            if (++stage == p.stages) stage = 0, parity ^= 1;
        }
    };
    if constexpr (E == Experts::UNITS) {
        waitForPredecessor(); // for the choice
        int expert = 0;
        const char *weights = weightsOf<E>(p, 0);
        for (int i = 0; i < s.pairs; i++) {
            const int row = firstRow(p, i);
            if (row >= (expert + 1) * p.half) weights = weightsOf<E>(p, expert = row / p.half);
            fetchPair(weights, row - expert * p.half);
        }
    } else if constexpr (E == Experts::OUTPUTS) {
        for (int batch = 0; batch < s.pairs; batch += BATCH) {
            for (int expert = 0; expert < p.count; expert++) {
                const char *weights = weightsOf<E>(p, expert);
                for (int i = batch; i < min(batch + BATCH, s.pairs); i++) fetchPair(weights, firstRow(p, i));
            }
        }
    } else {
        for (int i = 0; i < s.pairs; i++) fetchPair(weightsOf<E>(p, 0), firstRow(p, i));
    }
}

// bothSums is the first row's sum over a warp in lanes 0 to 15, and the second's in the others.
__device__ __forceinline__ float bothSums(const float (&d)[4]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float first = g % 2 ? d[1] : d[0], second = g % 2 ? d[3] : d[2];
    if (t != g / 2) first = second = 0;
    float mine = lane < 16 ? first : second;
    mine += __shfl_xor_sync(0xffffffff, lane < 16 ? second : first, 16);
#pragma unroll
    for (int lanes = 8; lanes > 0; lanes /= 2) mine += __shfl_xor_sync(0xffffffff, mine, lanes);
    return mine;
}

template <Type T, Experts E = Experts::NONE>
__device__ __forceinline__ void fusedRing(const Params<E> &p) {
    extern __shared__ __align__(128) uint8_t memory[];
    const Share<E> s(p);
    const int padded = (s.rowBytes + STEP - 1) / STEP * STEP;
    uint8_t *row = memory + p.stages * (2 * s.part);
    float *sums = reinterpret_cast<float *>(row + padded);
    float *scratch = sums + BATCH * 2 * RING_WARPS;
    const uint32_t full = sharedAddress(scratch + RING_WARPS), empty = full + 8 * p.stages;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

    if (warp == RING_WARPS) {
        if (lane < p.stages) {
            barrierInit(full + 8 * lane, 1);
            barrierInit(empty + 8 * lane, CONSUMERS);
        }
        barrierInitFence();
        __syncwarp();
        groupArrive(2, CONSUMERS + 32);
        if (lane == 0) produce<E>(p, s, sharedAddress(memory), full, empty);
        return;
    }

    auto sync = [] { groupSync(1, CONSUMERS); };
    const int mine = warp * 512 + lane * 16; // of each STEP bytes
    // Each lane for itself: nobody else multiplies with its pieces.
    auto loadRow = [&](int expert) {
        const char *a = static_cast<const char *>(p.a) + static_cast<int64_t>(expert) * p.k * 2;
#pragma unroll 8
        for (int at = mine; at < padded; at += STEP) {
            *reinterpret_cast<uint4 *>(row + at) = loadToken<2>(a, at, p.k * 2, p.aligned != 0);
        }
    };
    if (p.weight) {
        Norm<T, RING_KEPT> norm;
        norm.fetch(p, threadIdx.x, CONSUMERS);
        if (E != Experts::UNITS) waitForPredecessor();
        norm.apply(p, row, scratch, threadIdx.x, CONSUMERS, sync);
    } else {
        waitForPredecessor();
        if (E != Experts::OUTPUTS) loadRow(0);
    }
    groupSync(2, CONSUMERS + 32); // the barriers are there

    int stage = 0, parity = 0;
    const int rows = E == Experts::UNITS ? sideBySide<E>(p) * p.half : p.n;
    for (int batch = 0; batch < s.pairs; batch += BATCH) {
        const int pairs = min(BATCH, s.pairs - batch);
        // This thread's result: of a gated unit a pair's, else a row's. x is asked for now,
        // and here when it is needed.
        const int result = p.half ? firstRow(p, batch + threadIdx.x)
                                  : firstRow(p, batch + threadIdx.x / 2) + static_cast<int>(threadIdx.x % 2);
        const bool has = threadIdx.x < (p.half ? pairs : 2 * pairs) && result < rows;
        const float x = has && p.c == nullptr ? __ldcg(p.x + result) : 0;
        for (int expert = 0; expert < addedUp<E>(p); expert++) {
            if (E == Experts::OUTPUTS) loadRow(expert);
            const float share = shareOf<E>(p, expert);
            for (int i = 0; i < pairs; i++) {
                float d[4] = {};
                for (int at = mine; at < padded; at += s.part) {
                    barrierWait(full + 8 * stage, parity);
                    const uint8_t *first = memory + stage * (2 * s.part) + mine, *second = first + s.part;
#pragma unroll
                    for (int step = 0; step < STEPS; step++) {
                        if (step * STEP >= s.part) break;
                        const bool inside = at + step * STEP < s.rowBytes;
                        const uint4 zero = make_uint4(0, 0, 0, 0);
                        const uint4 low = inside ? *reinterpret_cast<const uint4 *>(first + step * STEP) : zero;
                        const uint4 high = inside ? *reinterpret_cast<const uint4 *>(second + step * STEP) : zero;
                        const uint4 token = inside ? *reinterpret_cast<const uint4 *>(row + at + step * STEP) : zero;
                        multiply<T>(d, low, high, token);
                    }
                    barrierArrive(empty + 8 * stage); // every lane: racecheck sees no order through another's arrival
                    if (++stage == p.stages) stage = 0, parity ^= 1;
                }
                const float sum = bothSums(d);
                if (lane % 16 == 0) {
                    float *to = sums + (2 * i + lane / 16) * RING_WARPS + warp;
                    *to = E == Experts::OUTPUTS ? fmaf(share, sum, expert > 0 ? *to : 0) : sum;
                }
            }
        }
        sync();
        if (has) {
            float sum[2];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float *from = sums + (p.half ? 2 * threadIdx.x + r : threadIdx.x) * RING_WARPS;
                sum[r] = 0;
#pragma unroll
                for (int w = 0; w < RING_WARPS; w++) sum[r] += from[w];
            }
            output<T>(p, result, sum[0], sum[1], x);
        }
        if (batch + BATCH < s.pairs) sync(); // before the sums are overwritten
    }
}

} // namespace gemv

#define GA_RING(NAME, T)                                                                                          \
    extern "C" __global__ void __launch_bounds__(gemv::CONSUMERS + 32, 2)                                          \
        ga_fused_ring_##NAME(const __grid_constant__ gemv::FusedParams p) {                                        \
        gemv::fusedRing<gemv::Type::T>(p);                                                                         \
    }                                                                                                              \
    extern "C" __global__ void __launch_bounds__(gemv::CONSUMERS + 32, 2)                                          \
        ga_units_ring_##NAME(const __grid_constant__ gemv::ExpertParams p) {                                       \
        gemv::fusedRing<gemv::Type::T, gemv::Experts::UNITS>(p);                                                   \
    }                                                                                                              \
    extern "C" __global__ void __launch_bounds__(gemv::CONSUMERS + 32, 2)                                          \
        ga_outputs_ring_##NAME(const __grid_constant__ gemv::ExpertParams p) {                                     \
        gemv::fusedRing<gemv::Type::T, gemv::Experts::OUTPUTS>(p);                                                 \
    }

GA_RING(fp16, FP16)
GA_RING(bf16, BF16)
