// arch: 90a
//
// hopper_scaled: C = A·Bᵀ of fp8 elements with scales, by TMA and wgmma. Compute capability 9.0.
//
// Scales    A has one for each row and group of K; B one for each block of 128 columns of C and 128 of K, for each column
//           and 128 of K, or for each column. Tensor cores add fp8 products with 14 bits or so: after 128 of K, their sums
//           are multiplied with both scales and added to fp32 sums in registers.
// Sides     Weights lie on wgmma's rows, tokens on its columns, as in hopper.cu's kernels whose name ends in t.
// Tile      ROWS of weights × TOKENS × 128 of K a step: one group of K is one step. 64 rows are for few tokens, where time is
//           that of fetching the weights: more blocks fetch, and each step waits for its products beside another.
// Threads   3 warpgroups: one thread of the first feeds the ring by TMA. Of 128 rows the others have 64 each. While one
//           adds up its step, the other has the tensor cores: the second starts when the first one's first step is
//           done, or both would add at the same time and leave the tensor cores idle. Of 64 rows they take the steps
//           in turns, and the first one adds the second one's sums in the end. Of tiles with few enough sums, factors
//           are ready before the products are.
// Shared    two boxes of C for each consumer warp; the barriers; the ring: weights, tokens, and the scales of the tokens.
// Clusters  Two blocks of different weights and the same tokens fetch half of the tokens each, for both: one step lasts some
//           300 ns, in which L2 can't give every multiprocessor its own copy of both.
// Grid      Persistent, with the first tiles cut along K: see Walk.
#include "hopper_scaled.cuh"

namespace scaled {

constexpr int MOST_STAGES = 20;
constexpr int LEAD_BARRIER = 1;
constexpr int JOIN_BARRIER = 4; // the second consumer's sums are there, then they have been read

template <int TOKENS, int ROWS, By BY>
struct Scaled {
    static constexpr int WEIGHTS_BYTES = ROWS * STEP_BYTES;
    // Consumers that have 64 rows between them take the steps in turns.
    static constexpr bool TURNS = ROWS == 64;
    static constexpr int SHARES = TURNS ? 1 : CONSUMERS;
    static constexpr int STRIDE = TURNS ? 2 : 1; // steps from one of a consumer to its next
    static_assert(!TURNS || TOKENS <= 64, "sums of the second consumer lie in its boxes");
    static constexpr bool GROUPED = BY != By::COLUMN;
    static constexpr int SCALES_BYTES = GROUPED ? (TOKENS * 4 + 127) / 128 * 128 : 0;
    // The swizzle needs stages at multiples of 1024 bytes: scales of all stages lie behind the ring.
    static constexpr int STAGE_BYTES = WEIGHTS_BYTES + TOKENS * STEP_BYTES;
    static constexpr int FILL_BYTES = STAGE_BYTES + (GROUPED ? TOKENS * 4 : 0);
    using Held = Sums<float, BfloatOut, 1, TOKENS, SHARES>;
    static constexpr int BOXES_BYTES = CONSUMERS * Held::BOXES_BYTES;
    static constexpr int BARRIERS_AT = BOXES_BYTES;
    static constexpr int RING_AT = BOXES_BYTES + 1024;
    static constexpr bool MANY = TOKENS > 128;                // sums a thread
    static constexpr bool EARLY = GROUPED && TOKENS <= 128;   // room for factors beside the sums
    static constexpr int QUEUE = !GROUPED ? 1 : MANY ? 2 : 4; // scales of B on their way from memory
    static constexpr int FACTORS = BY == By::BLOCK ? 2 : 4;   // of eight columns

    static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) { return shared + BARRIERS_AT + 8 * stage; }
    static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) { return full(shared, MOST_STAGES + stage); }

    static __device__ __forceinline__ void origin(const ScaledParams &p, int tile, int rank, int size, int &row, int &col) {
        place(p, tile, row, col);
        row = (row * size + rank) * ROWS;
        col *= TOKENS;
    }

    static __device__ __forceinline__ Walk walk(const ScaledParams &p, int size) {
        return Walk(p.cut, p.rowTiles * p.colTiles, p.steps, blockIdx.x / size, gridDim.x / size);
    }

    static __device__ __forceinline__ void produce(const ScaledParams &p, uint32_t shared, int rank, int size) {
        Walk work = walk(p, size);
        uint32_t parity = 0;
        int stage = 0, row = 0, col = 0;
        auto at = [&] { return shared + RING_AT + stage * STAGE_BYTES; };
        auto weights = [&](int step) { loadBox(at(), &p.a, step * STEP_BYTES, row, full(shared, stage)); };
        auto tokens = [&](int step) {
            if (size == 1)
                loadBox(at() + WEIGHTS_BYTES, &p.b, step * STEP_BYTES, col, full(shared, stage));
            else
                loadBoxMulticast(at() + WEIGHTS_BYTES + rank * (TOKENS / 2 * STEP_BYTES), &p.b, step * STEP_BYTES, col + rank * (TOKENS / 2),
                                 full(shared, stage), 3);
            if (GROUPED)
                loadBox(shared + RING_AT + p.stages * STAGE_BYTES + stage * SCALES_BYTES, &p.tokenScales, col, step, full(shared, stage));
        };
        auto advance = [&] {
            if (++stage == p.stages) {
                stage = 0;
                parity ^= 1;
            }
        };
        // Weights do not depend on the launch before: fill the ring with them while it ends.
        bool more = work.next();
        int ahead = 0;
        if (more) {
            origin(p, work.tile, rank, size, row, col);
            ahead = min(p.stages, work.end - work.begin);
#pragma unroll 1
            for (int i = 0; i < ahead; ++i) {
                barrierExpect(full(shared, stage), FILL_BYTES);
                weights(work.begin + i);
                advance();
            }
        }
        waitForPredecessor();
        stage = 0;
        parity = 0;
        while (more) {
            int step = work.begin;
#pragma unroll 1
            for (; ahead > 0; --ahead, ++step) {
                tokens(step);
                advance();
            }
#pragma unroll 1
            for (; step < work.end; ++step) {
                barrierWait(empty(shared, stage), parity ^ 1);
                barrierExpect(full(shared, stage), FILL_BYTES);
                weights(step);
                tokens(step);
                advance();
            }
            more = work.next();
            if (more) origin(p, work.tile, rank, size, row, col);
        }
    }

    // Scales of B for the two rows of this thread.
    static __device__ __forceinline__ float2 weightScales(const ScaledParams &p, int row, int group) {
        if (BY == By::BLOCK) {
            const float s = __ldg(p.scalesB + static_cast<int64_t>(min(row, p.rows - 1) / BLOCK) * p.groups + group);
            return make_float2(s, s);
        }
        row += threadRow();
        return make_float2(row < p.rows ? __ldg(p.scalesB + static_cast<int64_t>(row) * p.groups + group) : 0.f,
                           row + 8 < p.rows ? __ldg(p.scalesB + static_cast<int64_t>(row + 8) * p.groups + group) : 0.f);
    }

    static __device__ __forceinline__ void consume(const ScaledParams &p, uint32_t shared, int rank, int size) {
        const int consumer = static_cast<int>(threadIdx.x) / GROUP - 1, thread = threadIdx.x % GROUP;
        Walk work = walk(p, size);
        int stage = 0, box = 0;
        uint32_t parity = 0;
        waitForPredecessor();
        if (!TURNS && consumer == 1) groupSync(LEAD_BARRIER, CONSUMERS * GROUP);
        bool lead = !TURNS && consumer == 0;
        int turn = consumer; // how many steps from a piece's first to this consumer's first
        auto advance = [&] {
            if (++stage == p.stages) {
                stage = 0;
                parity ^= 1;
            }
        };
        if (TURNS && consumer == 1) advance();
        // Every warp has read its scales before its stage is filled again.
        auto release = [&] {
            __syncwarp();
            if (thread % 32 < size) barrierArriveAt(empty(shared, stage), thread % 32);
        };
        while (work.next()) {
            int row, col;
            origin(p, work.tile, rank, size, row, col);
            if (!TURNS) row += consumer * 64;
            float sum[1][TOKENS / 2];
#pragma unroll
            for (int i = 0; i < TOKENS / 2; ++i) sum[0][i] = 0;
            // Scales of B come from memory some steps before they are needed.
            const int begin = work.begin + (TURNS ? turn : 0);
            float2 queue[QUEUE];
            if constexpr (GROUPED) {
#pragma unroll
                for (int u = 0; u < QUEUE; ++u) queue[u] = weightScales(p, row, min(begin + u * STRIDE, work.end - 1));
            }
            auto multiply = [&](float2 b, float2 &next, int ahead) {
                float part[TOKENS / 2];
                barrierWait(full(shared, stage), parity);
                const uint32_t at = shared + RING_AT + stage * STAGE_BYTES;
                const uint64_t weights = wgmmaDescriptor(at + (TURNS ? 0 : consumer * (64 * STEP_BYTES)));
                const uint64_t tokens = wgmmaDescriptor(at + WEIGHTS_BYTES);
                wgmmaFence();
#pragma unroll
                for (int k = 0; k < STEP_BYTES / 32; ++k) Wgmma<Operand::E4M3, TOKENS>::add(part, weights + 2 * k, tokens + 2 * k, k > 0);
                wgmmaCommit();
                if constexpr (GROUPED) next = weightScales(p, row, ahead);
                const uint32_t scales = shared + RING_AT + p.stages * STAGE_BYTES + stage * SCALES_BYTES + threadColumn() * 4;
                float factors[EARLY ? TOKENS / 8 : 1][FACTORS];
                if constexpr (EARLY) {
#pragma unroll
                    for (int j = 0; j < TOKENS / 8; ++j) {
                        const float2 a = loadShared8(scales + 32 * j);
                        factors[j][0] = a.x * b.x;
                        factors[j][1] = a.y * b.x;
                        if constexpr (BY != By::BLOCK) {
                            factors[j][2] = a.x * b.y;
                            factors[j][3] = a.y * b.y;
                        }
                    }
                }
                wgmmaWait<0>();
#pragma unroll
                for (int i = 0; i < TOKENS / 2; ++i) asm volatile("" : "+f"(part[i])::"memory");
                if (lead) {
                    lead = false;
                    groupArrive(LEAD_BARRIER, CONSUMERS * GROUP);
                }
                if constexpr (EARLY || !GROUPED) release();
                if constexpr (EARLY) {
#pragma unroll
                    for (int i = 0; i < TOKENS / 2; ++i) sum[0][i] += part[i] * factors[i / 4][i % FACTORS];
                } else if constexpr (GROUPED) {
#pragma unroll
                    for (int j = 0; j < TOKENS / 8; ++j) {
                        const float2 a = loadShared8(scales + 32 * j);
                        sum[0][4 * j] += part[4 * j] * (a.x * b.x);
                        sum[0][4 * j + 1] += part[4 * j + 1] * (a.y * b.x);
                        sum[0][4 * j + 2] += part[4 * j + 2] * (BY == By::BLOCK ? a.x * b.x : a.x * b.y);
                        sum[0][4 * j + 3] += part[4 * j + 3] * (BY == By::BLOCK ? a.y * b.x : a.y * b.y);
                    }
                    release();
                } else {
#pragma unroll
                    for (int i = 0; i < TOKENS / 2; ++i) sum[0][i] += part[i];
                }
#pragma unroll
                for (int i = 0; i < STRIDE; ++i) advance();
            };
#pragma unroll 1
            for (int step = begin; step < work.end; step += QUEUE * STRIDE) {
#pragma unroll
                for (int u = 0; u < QUEUE; ++u) {
                    if (step + u * STRIDE >= work.end) break;
                    multiply(queue[u], queue[u], min(step + (u + QUEUE) * STRIDE, work.end - 1));
                }
            }
            if constexpr (TURNS) {
                turn = (turn + work.end - work.begin) % 2;
                const uint32_t sums = shared + Held::BOXES_BYTES + thread * 4;
                if (consumer == 1) {
#pragma unroll
                    for (int i = 0; i < TOKENS / 2; ++i) storeShared4(sums + i * (GROUP * 4), sum[0][i]);
                }
                groupSync(JOIN_BARRIER, CONSUMERS * GROUP);
                if (consumer == 0) {
#pragma unroll
                    for (int i = 0; i < TOKENS / 2; ++i) sum[0][i] += loadShared4(sums + i * (GROUP * 4));
                }
                groupSync(JOIN_BARRIER, CONSUMERS * GROUP); // they have been read
                if (consumer == 1) continue;
            }
            if (work.end < work.steps) {
                Held::keep(p, blockIdx.x, consumer, GROUP_BARRIER + consumer, sum);
                continue;
            }
            if (work.begin > 0) {
                const int first = work.tile * p.steps;
                int other = work.cluster;
                do {
                    --other;
                    Held::take(p, other * size + rank, consumer, GROUP_BARRIER + consumer, sum);
                } while (p.cut.runBegin(other, work.clusters) > first);
            }
            if (!GROUPED) {
                const float2 b = weightScales(p, row, 0);
#pragma unroll
                for (int j = 0; j < TOKENS / 8; ++j) {
                    const int m = col + 8 * j + threadColumn();
                    const float x = m < p.cols ? __ldg(p.scalesA + m) : 0.f, y = m + 1 < p.cols ? __ldg(p.scalesA + m + 1) : 0.f;
                    sum[0][4 * j] *= x * b.x;
                    sum[0][4 * j + 1] *= y * b.x;
                    sum[0][4 * j + 2] *= x * b.y;
                    sum[0][4 * j + 3] *= y * b.y;
                }
            }
            if (row < p.rows) Held::storeTransposed(p, shared, sum, row, col, box);
        }
        if (lead) groupArrive(LEAD_BARRIER, CONSUMERS * GROUP); // there was no piece
        waitStoresRead<0>();
    }

    static __device__ __forceinline__ void run(const ScaledParams &p) {
        extern __shared__ char raw[];
        const uint32_t shared = (sharedAddress(raw) + 1023) & ~1023u;
        const int rank = clusterRank(), size = clusterSize();
        if (threadIdx.x == 0) {
            prefetchMap(&p.a);
            prefetchMap(&p.b);
            if (GROUPED) prefetchMap(&p.tokenScales);
            if (p.aligned) prefetchMap(&p.c);
            for (int i = 0; i < p.stages; ++i) {
                barrierInit(full(shared, i), 1);
                barrierInit(empty(shared, i), SHARES * GROUP / 32 * size);
            }
            barrierInitFence();
        }
        if (size > 1)
            clusterSync();
        else
            __syncthreads();
        dependentsMayStart();
        if (threadIdx.x < GROUP) {
            registersDown<MANY ? 24 : 40>();
            if (threadIdx.x == 0) produce(p, shared, rank, size);
        } else {
            registersUp<MANY ? 240 : 232>();
            consume(p, shared, rank, size);
        }
        // A block stays until its partner sends it nothing more.
        if (size > 1) clusterSync();
    }
};

} // namespace scaled

#define GA_HOPPER_SCALED(BY, SUFFIX, TOKENS, ROWS)                                                                    \
    extern "C" __global__ void __launch_bounds__(scaled::THREADS, 1) ga_hopper_scaled_##SUFFIX##_##TOKENS##x##ROWS( \
        const __grid_constant__ ScaledParams p) {                                                                    \
        scaled::Scaled<TOKENS, ROWS, scaled::By::BY>::run(p);                                                        \
    }
#define GA_HOPPER_SCALED_FEW(BY, SUFFIX)     \
    GA_HOPPER_SCALED(BY, SUFFIX, 16, 64)     \
    GA_HOPPER_SCALED(BY, SUFFIX, 32, 64)     \
    GA_HOPPER_SCALED(BY, SUFFIX, 48, 64)     \
    GA_HOPPER_SCALED(BY, SUFFIX, 64, 64)     \
    GA_HOPPER_SCALED(BY, SUFFIX, 16, 128)    \
    GA_HOPPER_SCALED(BY, SUFFIX, 32, 128)    \
    GA_HOPPER_SCALED(BY, SUFFIX, 48, 128)    \
    GA_HOPPER_SCALED(BY, SUFFIX, 64, 128)    \
    GA_HOPPER_SCALED(BY, SUFFIX, 96, 128)    \
    GA_HOPPER_SCALED(BY, SUFFIX, 128, 128)

GA_HOPPER_SCALED_FEW(BLOCK, block)
GA_HOPPER_SCALED_FEW(COLUMN, column)
GA_HOPPER_SCALED_FEW(COLUMN_GROUP, group)
GA_HOPPER_SCALED(COLUMN_GROUP, group, 160, 128)
GA_HOPPER_SCALED(COLUMN_GROUP, group, 192, 128)
