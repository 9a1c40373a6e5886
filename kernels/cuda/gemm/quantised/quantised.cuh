// C = A·Wᵀ of 16-bit activations and weights of 4 or 8 bits, on compute capability 9.0a, computed
// as its transpose: weights are the operand of wgmma that comes in 64s and lies in registers,
// tokens that in shared memory.
//
// Tile: 128 rows of weights by TOKENS tokens by 128 of K. A step moves 8.25 KiB of weights (4
// bits, groups of 128) for 128·TOKENS·256 operations: 4·TOKENS operations a byte, so memory
// decides until about 64 tokens, and what counts is bytes in flight.
//
// Threads: two consumer warpgroups of 64 rows each, then one producer warp, or warpgroup, of which
// one lane works. A consumer makes operands of a half, or quarter, of a step while wgmma works on the
// one before.
//
// Shared memory: the ring of stages (tokens, as TMA swizzles them in 128-byte rows, then the
// record of weights), scratch of each consumer warp for turning sums into rows of C, then the
// barriers of the ring.
//
// Work: tiles times steps of K. Tiles that fill whole waves are done whole; the rest are cut into
// equal runs of steps, one for each block (stream-K): see Walk. Sums of cut tiles are added in
// the order of the runs: the same bits every time.
//
// Overlapped launches: weights are fetched before the predecessor has ended, all else after it. A block
// for few tokens that takes half of a multiprocessor's shared memory leaves room for one of the
// successor, whose ring is then full when the predecessor ends.
#pragma once

#include "pair.cuh"
#include "quantised_tile.cuh"
#include "quantised_weights.cuh"
#include "wgmma_registers.cuh"

namespace quantised {

struct Params {
    TensorMap tokens; // m rows of k, boxes of TOKENS rows by 64 of K
    const uint8_t *weights;
    void *c;
    float *partials; // of each block, as many floats as the tile has elements
    uint32_t *flags; // of each consumer of each block, 1 while its partial waits
    int64_t ldc;
    int m, n;
    int steps;      // of K a tile takes
    int tokenTiles; // of the m tokens
    int rowTiles;   // of the n rows of weights
    int band;       // tiles of tokens that are walked together
    Cut cut;        // which of the tiles are cut along K
    int stages;
    int vector; // rows of C are aligned to 16 bytes
};

constexpr int CONSUMER_WARPS = 8;
constexpr int K_BYTES = 128;         // of a swizzled row of tokens
constexpr int WARP_SCRATCH = 8 * 80; // bytes of a consumer warp

// What is left to each thread of such a producer, and what consumers get for it.
constexpr int PRODUCER_REGISTERS = 40;
constexpr int CONSUMER_REGISTERS = 232;

// threadsOf is how many threads a block has: consumers and one warp, or a warpgroup where the
// sums need more registers than an even share, which it then gives away.
__host__ __device__ constexpr int threadsOf(int tokens) { return tokens > 128 ? 384 : 288; }

// loadRecord fetches bytes, a multiple of 16, to shared memory; they count at barrier `bar`.
__device__ __forceinline__ void loadRecord(uint32_t to, const uint8_t *from, int bytes, uint32_t bar, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(bar), "l"(policy)
        : "memory");
}

__device__ __forceinline__ void storeMatrices2Transposed(uint32_t to, uint32_t a, uint32_t b) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

// putRow writes eight elements of a row of C, from column n on, or what of them is inside.
__device__ __forceinline__ void putRow(const Params &p, int token, int n, uint4 v) {
    if (token >= p.m || n >= p.n) return;
    uint16_t *to = static_cast<uint16_t *>(p.c) + token * p.ldc + n;
    if (p.vector && n + 8 <= p.n) {
        *reinterpret_cast<uint4 *>(to) = v;
        return;
    }
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (n + i < p.n) to[i] = static_cast<uint16_t>(words[i / 2] >> 16 * (i % 2));
    }
}

template <Operand T, int BITS, int GROUP, bool ZEROS, int TOKENS>
struct Product {
    using Weights = Record<T, BITS, GROUP, ZEROS>;
    static constexpr int TOKEN_BYTES = TOKENS * K_BYTES; // of 64 of K
    static constexpr int FETCHED = 2 * TOKEN_BYTES + Weights::BYTES;
    static constexpr int STAGE = (FETCHED + 1023) / 1024 * 1024;
    static constexpr bool WIDE = threadsOf(TOKENS) > 288;
    static constexpr bool FEW = TOKENS <= 64;

    const Params &p;
    uint32_t ring, scratch, full, empty;

    __device__ Product(const Params &params) : p(params) {
        extern __shared__ __align__(1024) uint8_t shared[];
        ring = sharedAddress(shared);
        scratch = ring + p.stages * STAGE;
        full = scratch + CONSUMER_WARPS * WARP_SCRATCH;
        empty = full + p.stages * 8;
    }

    __device__ void run() {
        const bool producer = threadIdx.x / 32 == CONSUMER_WARPS && electOne();
        if (producer) {
            prefetchMap(&p.tokens);
            for (int s = 0; s < p.stages; s++) {
                barrierInit(full + 8 * s, 1);
                barrierInit(empty + 8 * s, 32 * CONSUMER_WARPS);
            }
            barrierInitFence();
            fillWeights();
        }
        __syncthreads();
        // The successor starts when every thread has said so or ended: the producer does it last, but
        // where two blocks fit a multiprocessor, so that each finds room for one of the successor.
        if (FEW || !producer) dependentsMayStart();
        if (threadIdx.x < 32 * CONSUMER_WARPS) {
            if constexpr (WIDE) registersUp<CONSUMER_REGISTERS>();
            consume();
        } else {
            if constexpr (WIDE) registersDown<PRODUCER_REGISTERS>();
            // Again, so that the compiler knows that one lane is alone.
            if (threadIdx.x / 32 == CONSUMER_WARPS && electOne()) produce();
        }
    }

    __device__ uint64_t policy() const { return p.tokenTiles > 1 ? EVICT_NORMAL : EVICT_FIRST; }

    // fillWeights fetches the weights of the first stages.
    __device__ void fillWeights() {
        uint32_t stage = ring + 2 * TOKEN_BYTES, bar = full;
        for (Walk w = walk(p); w.next();) {
            const uint8_t *from = record<Weights::BYTES>(p, place(p, w.tile).row, w.begin);
#pragma unroll 1
            for (int step = w.begin; step < w.end; step++) {
                if (bar == empty) return;
                barrierExpect(bar, FETCHED);
                loadRecord(stage, from, Weights::BYTES, bar, policy());
                from += Weights::BYTES;
                stage += STAGE;
                bar += 8;
            }
        }
    }

    __device__ void produce() {
        waitForPredecessor();
        uint32_t stage = ring, bar = full;
        const uint32_t toEmpty = empty - full;
        int parity = 1; // of `empty`: the first round was filled ahead
        bool ahead = true;
        for (Walk w = walk(p); w.next();) {
            const Place at = place(p, w.tile);
            const uint8_t *from = record<Weights::BYTES>(p, at.row, w.begin);
            const int y = at.token * TOKENS;
            int x = w.begin * BLOCK_K;
#pragma unroll 1
            for (int step = w.begin; step < w.end; step++) {
                if (!ahead) {
                    barrierWait(bar + toEmpty, parity);
                    barrierExpect(bar, FETCHED);
                    loadRecord(stage + 2 * TOKEN_BYTES, from, Weights::BYTES, bar, policy());
                }
                loadBox(stage, &p.tokens, x, y, bar);
                loadBox(stage + TOKEN_BYTES, &p.tokens, x + 64, y, bar);
                from += Weights::BYTES;
                x += BLOCK_K;
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
        if (!FEW) dependentsMayStart();
    }

    // descriptor is that of a tile whose lower half is given.
    static __device__ __forceinline__ uint64_t descriptor(uint32_t low) { return static_cast<uint64_t>(64u | 1u << 30) << 32 | low; }

    // multiply starts the products of half a step.
    static __device__ __forceinline__ void multiply(float (&sums)[TOKENS / 2], const uint32_t (&a)[4][4], uint32_t tokens) {
        wgmmaFence();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            WgmmaRegisters<T, TOKENS>::add(sums, a[k], descriptor(tokens + 2 * k));
        }
        wgmmaCommit();
    }

    // pin keeps the compiler from moving what it does with the sums across this place, between
    // wgmmas, which would then run one by one.
    static __device__ __forceinline__ void pin(float (&sums)[TOKENS / 2]) {
#pragma unroll
        for (int i = 0; i < TOKENS / 2; i++) asm volatile("" : "+f"(sums[i])::"memory");
    }

    // release says that this thread is done with a stage. Each lane says it for itself: one lane's arrival does not
    // order the others' reads, and a __syncwarp before it would have wgmmas run one by one.
    __device__ __forceinline__ void release(uint32_t bar) const { barrierArrive(bar + (empty - full)); }

    // Unit is a thread's weights of one step; scales of several groups stay in shared memory.
    struct Unit {
        uint32_t words[8 * Weights::WORDS], scales, zeros;
    };

    // scalesAt is where a thread's scales lie in a stage.
    static __device__ __forceinline__ uint32_t scalesAt(uint32_t stage) {
        const int thread = threadIdx.x % 128;
        return stage + 2 * TOKEN_BYTES + threadIdx.x / 128 * Weights::PART + Weights::CODES + (thread / 32 * 8 + thread % 32 / 4) * 4;
    }

    // take waits for a stage and loads a thread's weights of it.
    static __device__ __forceinline__ void take(Unit &u, uint32_t stage, uint32_t bar, int parity) {
        const uint32_t codes = stage + 2 * TOKEN_BYTES + threadIdx.x / 128 * Weights::PART + threadIdx.x % 128 * 16;
        barrierWait(bar, parity);
#pragma unroll
        for (int i = 0; i < 2 * Weights::WORDS; i++) {
            const uint4 v = loadShared16(codes + i * (128 * 16));
            u.words[4 * i] = v.x, u.words[4 * i + 1] = v.y, u.words[4 * i + 2] = v.z, u.words[4 * i + 3] = v.w;
        }
        if constexpr (GROUP == BLOCK_K) {
            u.scales = loadShared4(scalesAt(stage));
            u.zeros = ZEROS ? loadShared4(scalesAt(stage) + Weights::SCALES) : 0;
        }
    }

    // multiplySteps multiplies so many steps, and returns the full barrier of the last one, whose products
    // are in flight yet. With few tokens it is the making of operands that takes the time, a quarter of a
    // step while the products of the one before are in flight, and the weights of the next step come meanwhile.
    // Products of very few tokens, which take less time than a sum takes to be ready for the next, have two
    // sums, of every second 16 of K each.
    __device__ __forceinline__ uint32_t multiplySteps(float (&sums)[TOKENS / 2], int left, uint32_t &stage, uint32_t &bar, int &parity) const {
        if constexpr (!FEW) return multiplyHalves(sums, left, stage, bar, parity);
        uint32_t held = 0; // the full barrier of the stage before this one
        uint32_t a[2][2][4];
        constexpr bool TWO = TOKENS <= 32;
        float odd[TOKENS / 2];
        if constexpr (TWO) {
#pragma unroll
            for (int i = 0; i < TOKENS / 2; i++) odd[i] = 0;
            pin(odd);
        }
        Unit u;
        take(u, stage, bar, parity);
#pragma unroll 1
        for (; left > 0; left--) {
            const uint32_t tokens = static_cast<uint32_t>(wgmmaDescriptor(stage));
            Group g;
#pragma unroll
            for (int i = 0; i < 4; i++) {
#pragma unroll
                for (int k = 2 * i; k < 2 * i + 2; k++) {
                    if (GROUP == BLOCK_K && k == 0) g = Weights::group(u.scales, u.zeros);
                    if (GROUP < BLOCK_K && k * 16 % GROUP == 0) g = Weights::loadGroup(scalesAt(stage), k * 16 / GROUP);
                    Weights::widen(u.words + k * Weights::WORDS, g, a[i % 2][k % 2]);
                }
                wgmmaFence();
#pragma unroll
                for (int k = 2 * i; k < 2 * i + 2; k++) {
                    WgmmaRegisters<T, TOKENS>::add(TWO && k % 2 ? odd : sums, a[i % 2][k % 2], descriptor(tokens + k / 4 * (TOKEN_BYTES / 16) + k % 4 * 2));
                }
                wgmmaCommit();
                if (i < 3) wgmmaWait<1>();
                if (i == 0 && held) release(held);
            }
            held = bar;
            advance(stage, bar, parity);
            if (left > 1) take(u, stage, bar, parity);
            wgmmaWait<1>();
        }
        if constexpr (TWO) {
            wgmmaWait<0>();
            pin(sums);
            pin(odd);
#pragma unroll
            for (int i = 0; i < TOKENS / 2; i++) sums[i] += odd[i];
        }
        return held;
    }

    // multiplyHalves does so with operands of half a step, whose products take longer than to make the next.
    __device__ __forceinline__ uint32_t multiplyHalves(float (&sums)[TOKENS / 2], int left, uint32_t &stage, uint32_t &bar, int &parity) const {
        const int thread = threadIdx.x % 128;
        const uint32_t part = 2 * TOKEN_BYTES + threadIdx.x / 128 * Weights::PART;
        const uint32_t codes = part + thread * 16, scales = part + Weights::CODES + (thread / 32 * 8 + thread % 32 / 4) * 4;
        uint32_t held = 0;
#pragma unroll 1
        for (; left > 0; left--) {
            uint32_t first[4][4], second[4][4];
            Group g;
            const uint32_t tokens = static_cast<uint32_t>(wgmmaDescriptor(stage));
            barrierWait(bar, parity);
            Weights::template operands<0>(stage + codes, stage + scales, g, first);
            multiply(sums, first, tokens);
            wgmmaWait<1>();
            if (held) release(held);
            Weights::template operands<1>(stage + codes, stage + scales, g, second);
            multiply(sums, second, tokens + TOKEN_BYTES / 16);
            wgmmaWait<1>();
            held = bar;
            advance(stage, bar, parity);
        }
        return held;
    }

    // advance goes on to the next stage.
    __device__ __forceinline__ void advance(uint32_t &stage, uint32_t &bar, int &parity) const {
        stage += STAGE;
        bar += 8;
        if (bar == empty) {
            stage = ring;
            bar = full;
            parity ^= 1;
        }
    }

    __device__ void consume() {
        uint32_t stage = ring, bar = full;
        int parity = 0;
        float sums[TOKENS / 2];
        waitForPredecessor();
        for (Walk w = walk(p); w.next();) {
#pragma unroll
            for (int i = 0; i < TOKENS / 2; i++) sums[i] = 0;
            pin(sums);
            const uint32_t held = multiplySteps(sums, w.end - w.begin, stage, bar, parity);
            wgmmaWait<0>();
            pin(sums);
            release(held);
            if (w.end < w.steps) {
                handOver<TOKENS>(p, sums);
                continue;
            }
            if (w.begin > 0) takeOver<TOKENS>(p, sums, w.tile);
            const Place at = place(p, w.tile);
            put(sums, at.token * TOKENS, at.row * ROWS + threadIdx.x / 32 * 16);
        }
    }

    // put writes a warp's sums: 16 columns of C, from n on, of TOKENS tokens.
    __device__ void put(const float (&d)[TOKENS / 2], int token0, int n) const {
        constexpr bool BF16 = T == Operand::BF16;
        const int lane = threadIdx.x % 32;
        const uint32_t mine = scratch + threadIdx.x / 32 * WARP_SCRATCH;
        // Rows of 32 bytes, a token each; halves of every second four rows change
        // places, so that neither side meets a bank twice.
        const int row = lane % 8 + lane / 16 * 8, half = lane / 8 % 2;
        const uint32_t to = mine + row * 32 + (half ^ (row / 4 & 1)) * 16;
        const int token = lane / 2, part = lane % 2;
        const uint32_t from = mine + token * 32 + (part ^ (token / 4 & 1)) * 16;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j += 2) {
            const bool pair = j + 1 < TOKENS / 8;
            if (pair) {
                storeMatrices4Transposed(to, packPair<BF16>(d[4 * j], d[4 * j + 1]), packPair<BF16>(d[4 * j + 2], d[4 * j + 3]),
                                         packPair<BF16>(d[4 * j + 4], d[4 * j + 5]), packPair<BF16>(d[4 * j + 6], d[4 * j + 7]));
            } else {
                storeMatrices2Transposed(to, packPair<BF16>(d[4 * j], d[4 * j + 1]), packPair<BF16>(d[4 * j + 2], d[4 * j + 3]));
            }
            __syncwarp();
            if (pair || token < 8) putRow(p, token0 + 8 * j + token, n + 8 * part, loadShared16(from));
            __syncwarp();
        }
    }
};

} // namespace quantised

// GA_QUANTISED makes the kernel of a tile: ga_w4a16_bf16_g128_64, or _g128z_64 with zero points.
#define GA_QUANTISED_KERNEL(DTYPE, T, BITS, GROUP, SUFFIX, ZEROS, TOKENS)                                          \
    extern "C" __global__ void __launch_bounds__(quantised::threadsOf(TOKENS), TOKENS <= 64 ? 2 : 1)                \
        ga_w##BITS##a16_##DTYPE##_g##GROUP##SUFFIX##_##TOKENS(const __grid_constant__ quantised::Params p) {       \
        quantised::Product<Operand::T, BITS, GROUP, ZEROS, TOKENS>(p).run();                                       \
    }
#define GA_QUANTISED(BITS, DTYPE, T, GROUP, TOKENS)            \
    GA_QUANTISED_KERNEL(DTYPE, T, BITS, GROUP, , false, TOKENS) \
    GA_QUANTISED_KERNEL(DTYPE, T, BITS, GROUP, z, true, TOKENS)
