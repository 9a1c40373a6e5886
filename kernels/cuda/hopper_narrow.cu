// The narrow variant of the hopper kernel, for few tokens: C = A·Bᵀ computed as its
// transpose, so that weights lie on the side of wgmma that comes in 64s and tokens on
// the side that comes in 8s. Compute capability 9.0a.
//
// Tile: ROWS rows of weights (64, 128 or 256) by TOKENS tokens (8 to 256) by 128 bytes
// of K, DEPTH of them a stage. With few tokens nothing but weights moves, ROWS·128
// bytes for 2·ROWS·TOKENS·(128 ÷ size) operations: TOKENS operations a byte at 16 bit,
// so memory decides until about 200 tokens, and what counts is bytes in flight. A
// stage of 128 rows is 16 KiB of weights, a ring of 100 KiB keeps 13 MB in flight on a
// card whose memory needs about 5 (4.3 TB/s for 1.2 us).
//
// Threads: GROUPS consumer warpgroups, each with BLOCKS blocks of 64 rows, then one
// producer warp of which one lane works. Shared memory: the ring of stages (weights,
// then tokens, as the TMA swizzles them, 128-byte rows), scratch of each consumer warp
// for turning fragments into rows of C, then the barriers of the ring.
//
// Work: tiles times steps of K. Tiles that fill whole waves are done whole; the rest,
// `streamed` tiles, are cut into equal runs of steps, one for each cluster (stream-K).
// A run is walked from its end to its beginning: what it holds of a tile that the next
// run finishes is done first and handed over in `partials`, so that whoever finishes a
// tile seldom waits, and waits only for runs before its own, which were started before
// it. Sums are added in the order of the runs: the same bits every time.
//
// Clusters: a cluster's tile is `clusterRows` by `clusterTokens` tiles. Blocks of the
// same weights each fetch a part and send it to all of them, and so do blocks of the
// same tokens: what a multiprocessor takes in is the same, what L2 has to give shrinks.
//
// Overlapped launches: weights are fetched before the predecessor has ended, all else
// after it; the successor may start once the last fetch is under way, so that its
// weights move while this kernel's last tiles are added up.
#include "wgmma.cuh"

namespace {

struct Params {
    TensorMap weights; // n rows of k, boxes of ROWS ÷ clusterTokens rows
    TensorMap tokens;  // m rows of k, boxes of TOKENS ÷ clusterRows rows
    void *c;
    float *partials; // of each block, as many floats as the tile has elements
    uint32_t *flags; // of each warpgroup of each block, 1 while its partial waits
    int64_t ldc;
    int m, n;
    int steps;      // stages of K a tile takes
    int tokenTiles; // clusters' tiles of the m tokens
    int tiles;      // clusters' tiles, those of the same weights side by side
    int streamed;   // the first tiles, which are cut
    int stages;
    int vector; // rows of C are aligned to 16 bytes
    int reread; // weights are needed more than once
    int clusterRows, clusterTokens;
};

constexpr int K_BYTES = 128;         // of a swizzled row, and of a block of K
constexpr int WARP_SCRATCH = 8 * 80; // bytes of a consumer warp: 8 rows of 64 and padding

// Walk goes through the segments of one cluster: pieces of tiles, steps [first, last)
// each.
struct Walk {
    int begin, end, steps, whole, tiles, stride;
    int tile, first, last;

    __device__ Walk(const Params &p, int cluster, int clusters) : steps(p.steps), tiles(p.tiles), stride(clusters) {
        begin = start(p, cluster, clusters);
        end = start(p, cluster + 1, clusters);
        whole = p.streamed + cluster;
    }

    // start is the first of the streamed steps that a cluster has.
    static __device__ int start(const Params &p, int cluster, int clusters) {
        return static_cast<int>(static_cast<int64_t>(p.streamed) * p.steps * cluster / clusters);
    }

    // holder is the cluster that has a streamed step.
    static __device__ int holder(const Params &p, int step, int clusters) {
        return static_cast<int>((static_cast<int64_t>(step + 1) * clusters - 1) / (static_cast<int64_t>(p.streamed) * p.steps));
    }

    __device__ bool next() {
        if (end > begin) {
            tile = (end - 1) / steps;
            int from = max(begin, tile * steps);
            first = from - tile * steps;
            last = end - tile * steps;
            end = from;
            return true;
        }
        if (whole < tiles) {
            tile = whole;
            first = 0;
            last = steps;
            whole += stride;
            return true;
        }
        return false;
    }
};

template <Operand T>
struct Element {
    static constexpr int size = T == Operand::TF32 ? 4 : T == Operand::E4M3 || T == Operand::S8 ? 1 : 2;
    static constexpr int outSize = T == Operand::TF32 || T == Operand::S8 ? 4 : 2;
};

template <Operand T>
__device__ __forceinline__ uint32_t packPair(float low, float high) {
    uint32_t r;
    if constexpr (T == Operand::FP16) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    }
    return r;
}

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
                storeMatrices4Transposed(to, packPair<T>(d[4 * j], d[4 * j + 1]), packPair<T>(d[4 * j + 2], d[4 * j + 3]),
                                         packPair<T>(d[4 * j + 4], d[4 * j + 5]), packPair<T>(d[4 * j + 6], d[4 * j + 7]));
            } else {
                storeMatrices2Transposed(to, packPair<T>(d[4 * j], d[4 * j + 1]), packPair<T>(d[4 * j + 2], d[4 * j + 3]));
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

template <Operand T, int GROUPS, int BLOCKS, int TOKENS, int DEPTH>
struct Narrow {
    using Value = typename Sum<T>::type;
    static constexpr int ROWS = 64 * GROUPS * BLOCKS;
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
            for (int s = 0; s < p.stages; s++) {
                barrierInit(full + 8 * s, 1);
                barrierInit(empty + 8 * s, WARPS * (p.clusterRows + p.clusterTokens - 1));
            }
            barrierInitFence();
            if (p.clusterTokens == 1) fillWeights<false>();
        }
        meet();
        // The successor starts when every thread has said so or ended: the producer
        // does it last.
        if (!producer) dependentsMayStart();
        if (threadIdx.x < 128 * GROUPS) {
            consume();
        } else if (producer) {
            if (p.clusterTokens > 1) {
                fillWeights<true>();
                p.clusterRows > 1 ? produce<true, true>() : produce<true, false>();
            } else {
                p.clusterRows > 1 ? produce<false, true>() : produce<false, false>();
            }
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

    // firstToken and firstRow are where a tile of this block begins.
    __device__ int firstToken(int tile) const { return (tile % p.tokenTiles * p.clusterTokens + column) * TOKENS; }
    __device__ int firstRow(int tile) const { return (tile / p.tokenTiles * p.clusterRows + row) * ROWS; }

    // Part is what this block fetches of one operand and for whom: all of its tile, or
    // its share for every block that needs the same. One thread issues all fetches, so
    // whatever does not change from step to step is worked out before.
    struct Part {
        uint32_t offset; // in the stage
        int shift;       // of rows, from the tile's first
        uint16_t blocks;
    };
    __device__ Part weightsPart() const {
        const int part = ROWS / p.clusterTokens;
        uint32_t mask = 0;
        for (int i = 0; i < p.clusterTokens; i++) mask |= 1u << (row + i * p.clusterRows);
        return {static_cast<uint32_t>(column * part * K_BYTES), column * part, static_cast<uint16_t>(mask)};
    }
    __device__ Part tokensPart() const {
        const int part = TOKENS / p.clusterRows;
        const uint32_t mask = ((1u << p.clusterRows) - 1) << column * p.clusterRows;
        return {static_cast<uint32_t>(DEPTH * WEIGHTS + row * part * K_BYTES), row * part, static_cast<uint16_t>(mask)};
    }

    // fetch gets the boxes of one operand for a stage: `bytes` apart, beginning at
    // column x and row y.
    template <bool SHARED>
    static __device__ __forceinline__ void fetch(const TensorMap *map, uint32_t to, int bytes, int x, int y, uint32_t bar,
                                                 uint16_t blocks, uint64_t policy) {
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            if constexpr (SHARED) {
                loadBoxMulticast(to + d * bytes, map, x + d * K, y, bar, blocks, policy);
            } else {
                loadBox(to + d * bytes, map, x + d * K, y, bar, policy);
            }
        }
    }

    __device__ uint64_t weightsPolicy() const { return p.reread ? EVICT_NORMAL : EVICT_FIRST; }

    // fillWeights fetches the weights of the first stages.
    template <bool SHARED>
    __device__ void fillWeights() {
        const Part part = weightsPart();
        const uint64_t policy = weightsPolicy();
        uint32_t stage = ring, bar = full;
        for (Walk w(p, index, clusters); w.next();) {
            const int y = firstRow(w.tile) + part.shift;
#pragma unroll 1
            for (int step = w.first; step < w.last; step++) {
                if (bar == empty) return;
                barrierExpect(bar, STAGE);
                fetch<SHARED>(&p.weights, stage + part.offset, WEIGHTS, step * (DEPTH * K), y, bar, part.blocks, policy);
                stage += STAGE;
                bar += 8;
            }
        }
    }

    template <bool SHARED_WEIGHTS, bool SHARED_TOKENS>
    __device__ void produce() {
        waitForPredecessor();
        const Part weights = weightsPart(), tokens = tokensPart();
        const uint64_t policy = weightsPolicy();
        uint32_t stage = ring, bar = full;
        const uint32_t toEmpty = empty - full;
        int parity = 1; // of `empty`: the first round was filled ahead
        bool ahead = true;
        for (Walk w(p, index, clusters); w.next();) {
            const int yWeights = firstRow(w.tile) + weights.shift, yTokens = firstToken(w.tile) + tokens.shift;
            int x = w.first * (DEPTH * K);
#pragma unroll 1
            for (int step = w.first; step < w.last; step++) {
                if (!ahead) {
                    barrierWait(bar + toEmpty, parity);
                    barrierExpect(bar, STAGE);
                    fetch<SHARED_WEIGHTS>(&p.weights, stage + weights.offset, WEIGHTS, x, yWeights, bar, weights.blocks, policy);
                }
                fetch<SHARED_TOKENS>(&p.tokens, stage + tokens.offset, TOKEN_BYTES, x, yTokens, bar, tokens.blocks, EVICT_NORMAL);
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

    // release tells the blocks that fill this slot that a warp is done with it.
    __device__ void release(int slot) {
        const int lane = threadIdx.x % 32;
        if (cluster == 1) {
            if (lane == 0) barrierArrive(empty + 8 * slot);
        } else if (lane < p.clusterRows) {
            barrierArriveAt(empty + 8 * slot, column * p.clusterRows + lane);
        } else if (lane < p.clusterRows + p.clusterTokens - 1) {
            const int other = lane - p.clusterRows;
            barrierArriveAt(empty + 8 * slot, row + (other + (other >= column)) * p.clusterRows);
        }
    }

    // multiply starts the products of one stage, and goes on to the next.
    __device__ __forceinline__ void multiply(Value (&sums)[BLOCKS][TOKENS / 2], int group, int &slot, int &parity) {
        barrierWait(full + 8 * slot, parity);
        const uint32_t stage = ring + slot * STAGE;
        const uint64_t weights = wgmmaDescriptor(stage + group * BLOCKS * 64 * K_BYTES);
        const uint64_t tokens = wgmmaDescriptor(stage + DEPTH * WEIGHTS);
        wgmmaFence();
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
#pragma unroll
            for (int k = 0; k < K_BYTES / 32; k++) {
#pragma unroll
                for (int b = 0; b < BLOCKS; b++) {
                    Wgmma<T, TOKENS>::add(sums[b], weights + d * (WEIGHTS / 16) + b * (64 * K_BYTES / 16) + 2 * k,
                                          tokens + d * (TOKEN_BYTES / 16) + 2 * k, 1);
                }
            }
        }
        wgmmaCommit();
        if (++slot == p.stages) {
            slot = 0;
            parity ^= 1;
        }
    }

    static __device__ __forceinline__ void clear(Value (&sums)[BLOCKS][TOKENS / 2]) {
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
            for (int i = 0; i < TOKENS / 2; i++) {
                // The zero is set here and now, not between two wgmmas.
                sums[b][i] = 0;
                if constexpr (T == Operand::S8) {
                    asm volatile("" : "+r"(sums[b][i])::"memory");
                } else {
                    asm volatile("" : "+f"(sums[b][i])::"memory");
                }
            }
        }
    }

    __device__ void consume() {
        const int group = threadIdx.x / 128;
        waitForPredecessor();
        Value sums[BLOCKS][TOKENS / 2];
        int slot = 0, parity = 0;
        for (Walk w(p, index, clusters); w.next();) {
            clear(sums);
            // One group of wgmmas stays in flight; the stage of the one before is let go.
            int held = slot;
            multiply(sums, group, slot, parity);
#pragma unroll 1
            for (int step = w.first + 1; step < w.last; step++) {
                multiply(sums, group, slot, parity);
                wgmmaWait<1>();
                release(held);
                if (++held == p.stages) held = 0;
            }
            wgmmaWait<0>();
            release(held);
            if (w.last < w.steps) {
                handOver(sums);
                continue;
            }
            if (w.first > 0) takeOver(sums, w.tile);
            const int token = firstToken(w.tile);
            const int n = firstRow(w.tile) + group * BLOCKS * 64 + threadIdx.x % 128 / 32 * 16;
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) {
                putBlock<T, TOKENS>(p, sums[b], token, n + 64 * b, scratch + threadIdx.x / 32 * WARP_SCRATCH);
            }
        }
    }

    // partial is where this thread's sums of a block's partial tile lie, in units of 16
    // bytes that are 128 apart.
    __device__ uint4 *partial(int block) const {
        const int64_t slot = static_cast<int64_t>(block) * GROUPS + threadIdx.x / 128;
        return reinterpret_cast<uint4 *>(p.partials) + slot * (BLOCKS * TOKENS / 8 * 128) + threadIdx.x % 128;
    }

    __device__ uint32_t *flag(int block) const { return p.flags + block * GROUPS + threadIdx.x / 128; }

    // handOver leaves the sums of a tile to the run that finishes it.
    __device__ void handOver(const Value (&sums)[BLOCKS][TOKENS / 2]) {
        uint4 *to = partial(blockIdx.x);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
            for (int j = 0; j < TOKENS / 8; j++) {
                const Value *v = &sums[b][4 * j];
                to[(b * (TOKENS / 8) + j) * 128] = make_uint4(bits(v[0]), bits(v[1]), bits(v[2]), bits(v[3]));
            }
        }
        groupSync(1 + threadIdx.x / 128, 128);
        if (threadIdx.x % 128 == 0) {
            __threadfence();
            storeRelease(flag(blockIdx.x), 1);
        }
    }

    // takeOver adds what the runs before this one have of a tile.
    __device__ void takeOver(Value (&sums)[BLOCKS][TOKENS / 2], int tile) {
        const int first = Walk::holder(p, tile * p.steps, clusters);
        for (int i = first + threadIdx.x % 128; i < index; i += 128) {
            uint32_t *f = flag(i * cluster + rank);
            while (loadAcquire(f) == 0) {
            }
            *f = 0;
        }
        groupSync(1 + threadIdx.x / 128, 128);
        for (int i = first; i < index; i++) {
            const uint4 *from = partial(i * cluster + rank);
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
                for (int j = 0; j < TOKENS / 8; j++) {
                    const uint4 v = __ldcg(from + (b * (TOKENS / 8) + j) * 128);
                    Value *s = &sums[b][4 * j];
                    if constexpr (T == Operand::S8) {
                        s[0] += static_cast<int>(v.x), s[1] += static_cast<int>(v.y);
                        s[2] += static_cast<int>(v.z), s[3] += static_cast<int>(v.w);
                    } else {
                        s[0] += __uint_as_float(v.x), s[1] += __uint_as_float(v.y);
                        s[2] += __uint_as_float(v.z), s[3] += __uint_as_float(v.w);
                    }
                }
            }
        }
    }
};

} // namespace

// Two blocks share a multiprocessor where registers allow it, one of them the
// successor's.
#define GA_NARROW(NAME, T, GROUPS, BLOCKS, TOKENS, DEPTH)                                                     \
    extern "C" __global__ void __launch_bounds__(128 * GROUPS + 32, BLOCKS *TOKENS <= 96 ? 2 : 1)              \
        ga_hopper_##NAME(const __grid_constant__ Params p) {                                                  \
        Narrow<Operand::T, GROUPS, BLOCKS, TOKENS, DEPTH>(p).run();                                           \
    }
#define GA_NARROW_TYPE(DTYPE, T)                           \
    GA_NARROW(DTYPE##_narrow_64x8, T, 1, 1, 8, 2)          \
    GA_NARROW(DTYPE##_narrow_64x16, T, 1, 1, 16, 2)        \
    GA_NARROW(DTYPE##_narrow_64x24, T, 1, 1, 24, 2)        \
    GA_NARROW(DTYPE##_narrow_64x32, T, 1, 1, 32, 2)        \
    GA_NARROW(DTYPE##_narrow_64x48, T, 1, 1, 48, 2)        \
    GA_NARROW(DTYPE##_narrow_64x64, T, 1, 1, 64, 2)        \
    GA_NARROW(DTYPE##_narrow_64x96, T, 1, 1, 96, 1)        \
    GA_NARROW(DTYPE##_narrow_64x128, T, 1, 1, 128, 1)      \
    GA_NARROW(DTYPE##_narrow_128x8, T, 2, 1, 8, 1)         \
    GA_NARROW(DTYPE##_narrow_128x16, T, 2, 1, 16, 1)       \
    GA_NARROW(DTYPE##_narrow_128x24, T, 2, 1, 24, 1)       \
    GA_NARROW(DTYPE##_narrow_128x32, T, 2, 1, 32, 1)       \
    GA_NARROW(DTYPE##_narrow_128x48, T, 2, 1, 48, 1)       \
    GA_NARROW(DTYPE##_narrow_128x64, T, 2, 1, 64, 1)       \
    GA_NARROW(DTYPE##_narrow_128x80, T, 2, 1, 80, 1)       \
    GA_NARROW(DTYPE##_narrow_128x96, T, 2, 1, 96, 1)       \
    GA_NARROW(DTYPE##_narrow_128x112, T, 2, 1, 112, 1)     \
    GA_NARROW(DTYPE##_narrow_128x128, T, 2, 1, 128, 1)     \
    GA_NARROW(DTYPE##_narrow_128x160, T, 2, 1, 160, 1)     \
    GA_NARROW(DTYPE##_narrow_128x192, T, 2, 1, 192, 1)     \
    GA_NARROW(DTYPE##_narrow_128x224, T, 2, 1, 224, 1)     \
    GA_NARROW(DTYPE##_narrow_128x256, T, 2, 1, 256, 1)     \
    GA_NARROW(DTYPE##_narrow_256x64, T, 2, 2, 64, 1)       \
    GA_NARROW(DTYPE##_narrow_256x96, T, 2, 2, 96, 1)       \
    GA_NARROW(DTYPE##_narrow_256x128, T, 2, 2, 128, 1)

GA_NARROW_TYPE(bf16, BF16)
#ifndef GA_ONE_TYPE
GA_NARROW_TYPE(fp16, FP16)
#endif
