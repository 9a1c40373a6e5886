// The kernel of hopper_narrow.cu and hopper_narrow_fp16.cu, one template for all tiles and types.
#pragma once

#include "hopper_handover.cuh"
#include "hopper_narrow_tiles.cuh"
#include "hopper_stream.cuh"
#include "pair.cuh"
#include "wgmma.cuh"

namespace narrow {

struct Params {
    TensorMap weights; // n rows of k, boxes of ROWS ÷ clusterTokens rows
    TensorMap tokens;  // m rows of k, boxes of TOKENS ÷ clusterRows rows
    void *c;
    float *partials; // of each block, as many floats as the tile has elements
    uint32_t *flags; // of each warpgroup of each block, 1 while its partial waits
    int64_t ldc;
    int m, n;
    int steps;      // stages of K a tile takes
    int run;        // clusters' tiles of the same weights, or of the same tokens, that follow each other
    int rowsFirst;  // those of the same tokens do
    int tiles;      // of clusters
    int lastRow, lastToken; // where a block's tile begins at the latest
    Cut cut;        // which of them are cut along K
    int stages;
    int vector; // rows of C are aligned to 16 bytes
    int reread; // weights are needed more than once
    int clusterRows, clusterTokens;
};

constexpr int K_BYTES = 128;         // of a swizzled row, and of a block of K
constexpr int WARP_SCRATCH = 8 * 80; // bytes of a consumer warp: 8 rows of 64 and padding

template <Operand T>
struct Element {
    static constexpr int size = T == Operand::TF32 ? 4 : T == Operand::E4M3 || T == Operand::S8 ? 1 : 2;
    static constexpr int outSize = T == Operand::TF32 || T == Operand::S8 ? 4 : 2;
};

__device__ __forceinline__ void storeMatrices2Transposed(uint32_t to, uint32_t a, uint32_t b) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

__device__ __forceinline__ uint4 loadShared16(uint32_t from) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
    return v;
}

__device__ __forceinline__ void storeShared4(uint32_t to, uint32_t v) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
}

__device__ __forceinline__ uint32_t bits(float v) { return __float_as_uint(v); }
__device__ __forceinline__ uint32_t bits(int v) { return static_cast<uint32_t>(v); }

// putRow writes 16 bytes of a row of C, from column n on, or what of them is inside.
template <int SIZE>
__device__ __forceinline__ void putRow(const Params &p, int token, int n, uint4 v) {
    if (token >= p.m || n >= p.n) return;
    char *to = static_cast<char *>(p.c) + (token * p.ldc + n) * SIZE;
    constexpr int COUNT = 16 / SIZE;
    if (p.vector && n + COUNT <= p.n) {
        *reinterpret_cast<uint4 *>(to) = v;
        return;
    }
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (n + i >= p.n) continue;
        if constexpr (SIZE == 4) {
            reinterpret_cast<uint32_t *>(to)[i] = words[i];
        } else {
            reinterpret_cast<uint16_t *>(to)[i] = static_cast<uint16_t>(words[i / 2] >> 16 * (i % 2));
        }
    }
}

// putBlock writes a warp's part of a block of 64 rows of weights: 16 columns of C, from
// n on, of TOKENS tokens.
template <Operand T, int TOKENS>
__device__ __forceinline__ void putBlock(const Params &p, const typename Sum<T>::type (&d)[TOKENS / 2], int token0, int n,
                                         uint32_t scratch) {
    const int lane = threadIdx.x % 32;
    if constexpr (Element<T>::outSize == 2) {
        // Rows of 32 bytes, a token each; halves of every second four rows change
        // places, so that neither side meets a bank twice.
        const int row = lane % 8 + lane / 16 * 8, half = lane / 8 % 2;
        const uint32_t to = scratch + row * 32 + (half ^ (row / 4 & 1)) * 16;
        const int token = lane / 2, part = lane % 2;
        const uint32_t from = scratch + token * 32 + (part ^ (token / 4 & 1)) * 16;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j += 2) {
            const bool pair = j + 1 < TOKENS / 8;
            if (pair) {
                storeMatrices4Transposed(to, packPair<T != Operand::FP16>(d[4 * j], d[4 * j + 1]), packPair<T != Operand::FP16>(d[4 * j + 2], d[4 * j + 3]),
                                         packPair<T != Operand::FP16>(d[4 * j + 4], d[4 * j + 5]), packPair<T != Operand::FP16>(d[4 * j + 6], d[4 * j + 7]));
            } else {
                storeMatrices2Transposed(to, packPair<T != Operand::FP16>(d[4 * j], d[4 * j + 1]), packPair<T != Operand::FP16>(d[4 * j + 2], d[4 * j + 3]));
            }
            __syncwarp();
            if (pair || token < 8) putRow<2>(p, token0 + 8 * j + token, n + 8 * part, loadShared16(from));
            __syncwarp();
        }
    } else {
        // Rows of 64 bytes, 80 apart.
        const uint32_t to = scratch + lane % 4 * 160 + lane / 4 * 4;
        const int token = lane / 4, part = lane % 4;
        const uint32_t from = scratch + token * 80 + part * 16;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j++) {
            storeShared4(to, bits(d[4 * j]));
            storeShared4(to + 80, bits(d[4 * j + 1]));
            storeShared4(to + 32, bits(d[4 * j + 2]));
            storeShared4(to + 80 + 32, bits(d[4 * j + 3]));
            __syncwarp();
            putRow<4>(p, token0 + 8 * j + token, n + 4 * part, loadShared16(from));
            __syncwarp();
        }
    }
}

template <Operand T, int GROUPS, int TOKENS>
struct Narrow {
    using Value = typename Sum<T>::type;
    static constexpr int ROWS = 64 * GROUPS;
    // Blocks of K in a stage: two where one would be over before the next is asked for.
    static constexpr int DEPTH = ROWS == 64 && TOKENS < 96 ? 2 : 1;
    static constexpr int K = K_BYTES / Element<T>::size; // elements of a block of K
    static constexpr int WEIGHTS = ROWS * K_BYTES;       // bytes of a block of K
    static constexpr int TOKEN_BYTES = TOKENS * K_BYTES;
    static constexpr int STAGE = DEPTH * (WEIGHTS + TOKEN_BYTES);
    static constexpr int WARPS = 4 * GROUPS; // of consumers

    const Params &p;
    int cluster, index, clusters; // size, which one, how many
    int rank, row, column;        // in the cluster: of its blocks, of its rows of weights, of its tokens
    uint32_t ring, scratch, full, empty;

    __device__ Narrow(const Params &params) : p(params) {
        extern __shared__ __align__(1024) uint8_t shared[];
        cluster = p.clusterRows * p.clusterTokens;
        rank = clusterRank();
        row = rank % p.clusterRows;
        column = rank / p.clusterRows;
        index = blockIdx.x / cluster;
        clusters = gridDim.x / cluster;
        ring = sharedAddress(shared);
        scratch = ring + p.stages * STAGE;
        full = scratch + WARPS * WARP_SCRATCH;
        empty = full + p.stages * 8;
    }

    __device__ void run() {
        const bool producer = threadIdx.x / 32 == WARPS && electOne();
        if (producer) {
            prefetchMap(&p.weights);
            prefetchMap(&p.tokens);
            for (int s = 0; s < p.stages; s++) {
                barrierInit(full + 8 * s, 1);
                barrierInit(empty + 8 * s, WARPS * (p.clusterRows + p.clusterTokens - 1));
            }
            barrierInitFence();
            if (p.clusterTokens == 1) fillWeights();
        }
        meet();
        // The successor starts when every thread has said so or ended: the producer
        // does it last.
        if (!producer) dependentsMayStart();
        if (threadIdx.x < 128 * GROUPS) {
            consume();
        } else if (electOne()) { // again, so that the compiler knows that one lane is alone
            if (p.clusterTokens > 1) fillWeights();
            produce();
        }
        // A block must outlive what its neighbours send to it.
        if (cluster > 1) meet();
    }

    // meet waits for all threads of the cluster. It orders no writes: barriers are
    // initialised with a fence of their own.
    __device__ void meet() {
        __syncwarp();
        if (cluster > 1) {
            asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
        } else {
            __syncthreads();
        }
    }

    // place returns where a tile of this block begins.
    struct Place {
        int row, token;
    };
    __device__ Place place(int tile) const {
        const int along = tile % p.run, across = tile / p.run;
        const int ofRows = p.rowsFirst ? along : across, ofTokens = p.rowsFirst ? across : along;
        return {min((ofRows * p.clusterRows + row) * ROWS, p.lastRow), min((ofTokens * p.clusterTokens + column) * TOKENS, p.lastToken)};
    }

    // Part is what this block fetches of one operand and for whom: all of its tile, or
    // its share for every block that needs the same. One thread issues all fetches, so
    // whatever does not change from step to step is worked out before.
    struct Part {
        uint32_t offset; // in the stage
        int shift;       // of rows, from the tile's first
        uint16_t blocks; // 0 for this one alone
    };
    __device__ Part weightsPart() const {
        const int part = ROWS / p.clusterTokens;
        uint32_t mask = 0;
        for (int i = 0; i < p.clusterTokens && p.clusterTokens > 1; i++) mask |= 1u << (row + i * p.clusterRows);
        return {static_cast<uint32_t>(column * part * K_BYTES), column * part, static_cast<uint16_t>(mask)};
    }
    __device__ Part tokensPart() const {
        const int part = TOKENS / p.clusterRows;
        const uint32_t mask = p.clusterRows > 1 ? ((1u << p.clusterRows) - 1) << column * p.clusterRows : 0;
        return {static_cast<uint32_t>(DEPTH * WEIGHTS + row * part * K_BYTES), row * part, static_cast<uint16_t>(mask)};
    }

    // fetch gets the boxes of one operand for a stage: `bytes` apart, beginning at
    // column x and row y.
    static __device__ __forceinline__ void fetch(const TensorMap *map, uint32_t to, int bytes, int x, int y, uint32_t bar,
                                                 uint16_t blocks, uint64_t policy) {
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            if (blocks) {
                loadBoxMulticast(to + d * bytes, map, x + d * K, y, bar, blocks, policy);
            } else {
                loadBox(to + d * bytes, map, x + d * K, y, bar, policy);
            }
        }
    }

    __device__ uint64_t weightsPolicy() const { return p.reread ? EVICT_NORMAL : EVICT_FIRST; }

    // fillWeights fetches the weights of the first stages.
    __device__ void fillWeights() {
        const Part part = weightsPart();
        const uint64_t policy = weightsPolicy();
        uint32_t stage = ring, bar = full;
        for (Walk w(p.cut, p.tiles, p.steps, index, clusters); w.next();) {
            const int y = place(w.tile).row + part.shift;
#pragma unroll 1
            for (int step = w.begin; step < w.end; step++) {
                if (bar == empty) return;
                barrierExpect(bar, STAGE);
                fetch(&p.weights, stage + part.offset, WEIGHTS, step * (DEPTH * K), y, bar, part.blocks, policy);
                stage += STAGE;
                bar += 8;
            }
        }
    }

    __device__ void produce() {
        waitForPredecessor();
        const Part weights = weightsPart(), tokens = tokensPart();
        const uint64_t policy = weightsPolicy();
        uint32_t stage = ring, bar = full;
        const uint32_t toEmpty = empty - full;
        int parity = 1; // of `empty`: the first round was filled ahead
        bool ahead = true;
        for (Walk w(p.cut, p.tiles, p.steps, index, clusters); w.next();) {
            const Place at = place(w.tile);
            const int yWeights = at.row + weights.shift, yTokens = at.token + tokens.shift;
            int x = w.begin * (DEPTH * K);
#pragma unroll 1
            for (int step = w.begin; step < w.end; step++) {
                if (!ahead) {
                    barrierWait(bar + toEmpty, parity);
                    barrierExpect(bar, STAGE);
                    fetch(&p.weights, stage + weights.offset, WEIGHTS, x, yWeights, bar, weights.blocks, policy);
                }
                fetch(&p.tokens, stage + tokens.offset, TOKEN_BYTES, x, yTokens, bar, tokens.blocks, EVICT_NORMAL);
                x += DEPTH * K;
                stage += STAGE;
                bar += 8;
                if (bar == empty) {
                    stage = ring;
                    bar = full;
                    parity ^= 1;
                    ahead = false;
                }
            }
        }
        dependentsMayStart();
    }

    // Slot is a place in the ring as consumers go round it.
    struct Slot {
        uint32_t bar;             // its full barrier
        uint32_t weights, tokens; // low words of the descriptors of its operands
        int parity;
    };
    static constexpr uint32_t DESCRIPTOR_HIGH = 64u | 1u << 30; // as wgmmaDescriptor has it

    __device__ Slot firstSlot(int group) const {
        return {full, static_cast<uint32_t>(wgmmaDescriptor(ring + group * 64 * K_BYTES)),
                static_cast<uint32_t>(wgmmaDescriptor(ring + DEPTH * WEIGHTS)), 0};
    }

    // multiply starts the products of one stage, and goes on to the next. A stage of few
    // tokens lasts some 200 cycles, which is what this has to stay below.
    __device__ __forceinline__ void multiply(Value (&sums)[TOKENS / 2], Slot &slot) {
        barrierWait(slot.bar, slot.parity);
        wgmmaFence();
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
#pragma unroll
            for (int k = 0; k < K_BYTES / 32; k++) {
                const uint32_t weights = slot.weights + d * (WEIGHTS / 16) + 2 * k;
                const uint32_t tokens = slot.tokens + d * (TOKEN_BYTES / 16) + 2 * k;
                Wgmma<T, TOKENS>::add(sums, static_cast<uint64_t>(DESCRIPTOR_HIGH) << 32 | weights,
                                      static_cast<uint64_t>(DESCRIPTOR_HIGH) << 32 | tokens, 1);
            }
        }
        wgmmaCommit();
        slot.bar += 8;
        slot.weights += STAGE / 16;
        slot.tokens += STAGE / 16;
        if (slot.bar == empty) {
            slot.bar = full;
            slot.weights -= p.stages * (STAGE / 16);
            slot.tokens -= p.stages * (STAGE / 16);
            slot.parity ^= 1;
        }
    }

    // releaseAt is how far from a full barrier the empty barrier lies that this lane tells
    // that its warp is done with a slot: that of a block which fills it, or 0.
    __device__ uint32_t releaseAt() const {
        const int lane = threadIdx.x % 32;
        int to;
        if (lane < p.clusterRows) {
            to = column * p.clusterRows + lane;
        } else if (lane < p.clusterRows + p.clusterTokens - 1) {
            const int other = lane - p.clusterRows;
            to = row + (other + (other >= column)) * p.clusterRows;
        } else {
            return 0;
        }
        uint32_t mapped;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(empty), "r"(to));
        return mapped - full;
    }
    static __device__ __forceinline__ void release(uint32_t bar, uint32_t distance) {
        if (distance) asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar + distance) : "memory");
    }

    // pin keeps the compiler from moving what it does with the sums across this place,
    // between wgmmas, which would then run one by one.
    static __device__ __forceinline__ void pin(Value (&sums)[TOKENS / 2]) {
#pragma unroll
        for (int i = 0; i < TOKENS / 2; i++) {
            if constexpr (T == Operand::S8) {
                asm volatile("" : "+r"(sums[i])::"memory");
            } else {
                asm volatile("" : "+f"(sums[i])::"memory");
            }
        }
    }

    __device__ void consume() {
        const int group = threadIdx.x / 128;
        const uint32_t distance = releaseAt();
        Slot slot = firstSlot(group);
        Value sums[TOKENS / 2];
        waitForPredecessor();
        for (Walk w(p.cut, p.tiles, p.steps, index, clusters); w.next();) {
#pragma unroll
            for (int i = 0; i < TOKENS / 2; i++) sums[i] = 0;
            pin(sums);
            // One group of wgmmas stays in flight; the stage of the one before is let go.
            uint32_t held = slot.bar;
            multiply(sums, slot);
#pragma unroll 1
            for (int left = w.end - w.begin - 1; left > 0; left--) {
                const uint32_t bar = slot.bar;
                multiply(sums, slot);
                wgmmaWait<1>();
                release(held, distance);
                held = bar;
            }
            wgmmaWait<0>();
            pin(sums);
            release(held, distance);
            if (w.end < w.steps) {
                handOver(sums);
                continue;
            }
            if (w.begin > 0) takeOver(sums, w.tile);
            const Place at = place(w.tile);
            const int n = at.row + group * 64 + threadIdx.x % 128 / 32 * 16;
            putBlock<T, TOKENS>(p, sums, at.token, n, scratch + threadIdx.x / 32 * WARP_SCRATCH);
        }
    }

    // partial is where this thread's sums of a block's partial tile lie, in units of 16
    // bytes that are 128 apart.
    __device__ float4 *partial(int block) const {
        const int64_t slot = static_cast<int64_t>(block) * GROUPS + threadIdx.x / 128;
        return reinterpret_cast<float4 *>(p.partials) + slot * (TOKENS / 8 * 128) + threadIdx.x % 128;
    }

    __device__ uint32_t *flag(int block) const { return p.flags + block * GROUPS + threadIdx.x / 128; }

    // handOver leaves the sums of a tile to the run that finishes it.
    __device__ void handOver(const Value (&sums)[TOKENS / 2]) {
        putPartial<TOKENS / 8>(partial(blockIdx.x), sums);
        GA_HAND_OVER(1 + threadIdx.x / 128, flag(blockIdx.x));
    }

    // takeOver adds what the runs before this one have of a tile.
    __device__ void takeOver(Value (&sums)[TOKENS / 2], int tile) {
        int first = index;
        while (p.cut.runBegin(first, clusters) > tile * p.steps) first--;
        for (int i = first + threadIdx.x % 128; i < index; i += 128) {
            awaitHandOver(flag(i * cluster + rank));
        }
        groupSync(1 + threadIdx.x / 128, 128);
        for (int i = first; i < index; i++) addPartial<TOKENS / 8>(partial(i * cluster + rank), sums);
    }
};

} // namespace narrow

#define GA_SMALL_M(DTYPE, T, ROWS, TOKENS)                                                  \
    extern "C" __global__ void __launch_bounds__(128 * (ROWS / 64) + 32, 1)               \
        ga_hopper_##DTYPE##_narrow_##ROWS##x##TOKENS(const __grid_constant__ narrow::Params p) { \
        narrow::Narrow<Operand::T, ROWS / 64, TOKENS>(p).run();                             \
    }
