// arch: 90a
//
// hopper_scaled_wide: C = A·Bᵀ of fp8 elements with scales, for more tokens than hopper_scaled. Compute capability 9.0.
//
// Scales    A has one for each row and group of K; B one for each block of 128 columns of C and 128 of K, or for each column.
// Sides     Tokens lie on wgmma's rows, of which a thread has two in 64: it scales all sums of a row by one factor for each block of
//           columns, which costs one instruction a sum. With weights on the rows it would need a factor for each column.
// Tile      128 or 256 tokens of which each consumer has half, and all columns; or 64 or 128 tokens, and each has half of the
//           columns. Sums are added in parts of at most 192 columns, as wgmma's own sums take registers beside them.
// Threads   3 warpgroups: one thread of the first feeds the ring by TMA, the others multiply and add in turns. While one adds up
//           a part, the other has the tensor cores. Who has issued its products lets the other one issue its own: tensor cores
//           take them in that order. Left alone, both would soon add at the same time and leave the tensor cores idle.
//           Descriptors stay in uniform registers, so that four wgmmas follow each other within some ten cycles each.
// Shared    the ring; two boxes of C for each consumer warp; scales of the tokens, by stage, or of the tile's columns; the barriers.
// Grid      Persistent, with the first tiles cut along K: see Walk. A cluster's blocks share tokens or weights.
#include "hopper_scaled.cuh"

namespace scaled {

constexpr int LEAD_BARRIER = 4; // and 5: one for each consumer

__host__ __device__ constexpr int divisor(int a, int b) { return b == 0 ? a : divisor(b, a % b); }

// withUpper completes a descriptor of which all but the lower word is the same everywhere.
__device__ __forceinline__ uint64_t withUpper(uint32_t lower) { return static_cast<uint64_t>(wgmmaDescriptor(0) >> 32) << 32 | lower; }

// Wide is the tile of MMAS × 64 tokens and WIDTH columns a consumer: below each other, or BESIDE.
template <int MMAS, int WIDTH, bool BESIDE, By BY, int PASS = 0>
struct Wide {
    static constexpr bool GROUPED = BY != By::COLUMN;
    static constexpr int PART = WIDTH * MMAS > 192 && WIDTH > 128 ? WIDTH / 2 : WIDTH; // columns that are added at a time
    static constexpr int PARTS = WIDTH / PART, UNITS = MMAS * PARTS;                   // of a consumer's step
    static constexpr int ROWS = 64 * MMAS * (BESIDE ? 1 : CONSUMERS), COLUMNS = WIDTH * (BESIDE ? CONSUMERS : 1);
    static constexpr int CHUNK = divisor(WIDTH, BLOCK), CHUNKS = WIDTH / CHUNK; // columns of one scale
    static constexpr int TOKENS_BYTES = ROWS * STEP_BYTES, WEIGHTS_BYTES = COLUMNS * STEP_BYTES;
    static constexpr int STAGE_BYTES = TOKENS_BYTES + WEIGHTS_BYTES;
    static constexpr int SCALES_BYTES = GROUPED ? ROWS * 4 : 0;                 // of a stage
    static constexpr int COLUMN_BYTES = GROUPED ? 0 : CONSUMERS * WIDTH * 4;    // of a tile
    using Held = Sums<float, BfloatOut, MMAS, WIDTH, CONSUMERS>;

    // Addresses in shared memory.
    struct Places {
        uint32_t ring, boxes, scales, full, empty;
        __device__ __forceinline__ Places(const ScaledParams &p, uint32_t shared)
            : ring(shared), boxes(ring + p.stages * STAGE_BYTES), scales(boxes + CONSUMERS * Held::BOXES_BYTES),
              full(scales + p.stages * SCALES_BYTES + COLUMN_BYTES), empty(full + p.stages * 8) {}
    };

    static __device__ __forceinline__ void origin(const ScaledParams &p, int tile, int rank, int size, int &row, int &col) {
        place(p, tile, row, col);
        if (size == 2) {
            if (p.pairRows)
                row = 2 * row + rank;
            else
                col = 2 * col + rank;
        }
        row *= ROWS;
        col *= COLUMNS;
    }

    static __device__ __forceinline__ void produce(const ScaledParams &p, const Places &at, int rank, int size) {
        Walk work(p.cut, p.rowTiles * p.colTiles, p.steps, blockIdx.x / size, gridDim.x / size);
        uint32_t parity = 0;
        int stage = 0, row = 0, col = 0;
        // Of a cluster's common operand each block fetches half, for both.
        const bool halfTokens = size == 2 && !p.pairRows, halfWeights = size == 2 && p.pairRows;
        auto full = [&] { return at.full + 8 * stage; };
        auto tokens = [&](int step) {
            const uint32_t to = at.ring + stage * STAGE_BYTES;
            if (halfTokens)
                loadBoxMulticast(to + rank * (TOKENS_BYTES / 2), &p.a, step * STEP_BYTES, row + rank * (ROWS / 2), full(), 3);
            else
                loadBox(to, &p.a, step * STEP_BYTES, row, full());
            if (GROUPED) loadBox(at.scales + stage * SCALES_BYTES, &p.tokenScales, row, step, full());
        };
        auto weights = [&](int step) {
            const uint32_t to = at.ring + stage * STAGE_BYTES + TOKENS_BYTES;
            if (halfWeights)
                loadBoxMulticast(to + rank * (WEIGHTS_BYTES / 2), &p.b, step * STEP_BYTES, col + rank * (COLUMNS / 2), full(), 3);
            else
                loadBox(to, &p.b, step * STEP_BYTES, col, full());
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
                barrierExpect(full(), STAGE_BYTES + SCALES_BYTES);
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
                barrierWait(at.empty + 8 * stage, parity ^ 1);
                barrierExpect(full(), STAGE_BYTES + SCALES_BYTES);
                weights(step);
                tokens(step);
                advance();
            }
            more = work.next();
            if (more) origin(p, work.tile, rank, size, row, col);
        }
    }

    static __device__ __forceinline__ void consume(const ScaledParams &p, const Places &at, int rank, int size) {
        // The same in all lanes, and the compiler knows: descriptors are then made of uniform registers.
        const int consumer = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / GROUP - 1, 0), thread = threadIdx.x % GROUP;
        const int firstRow = BESIDE ? 0 : consumer * (64 * MMAS), firstColumn = BESIDE ? consumer * WIDTH : 0;
        const uint32_t tokenScales = at.scales + (firstRow + threadRow()) * 4, columnScales = at.scales + consumer * (WIDTH * 4);
        Walk work(p.cut, p.rowTiles * p.colTiles, p.steps, blockIdx.x / size, gridDim.x / size);

        // The lower words of descriptors of this consumer's part of a stage.
        struct Part {
            uint32_t tokens, weights;
        };
        const Part first = {static_cast<uint32_t>(wgmmaDescriptor(at.ring + firstRow * STEP_BYTES)),
                            static_cast<uint32_t>(wgmmaDescriptor(at.ring + TOKENS_BYTES + firstColumn * STEP_BYTES))};
        Part here = first;
        int stage = 0, box = 0;
        uint32_t parity = 0;
        auto advance = [&] {
            here.tokens += STAGE_BYTES / 16;
            here.weights += STAGE_BYTES / 16;
            if (++stage == p.stages) {
                stage = 0;
                parity ^= 1;
                here = first;
            }
        };
        // Every warp has read its scales before its stage is filled again.
        auto release = [&] {
            __syncwarp();
            if (thread % 32 < size) barrierArriveAt(at.empty + 8 * stage, thread % 32);
        };
        auto pass = [&] { groupArrive(LEAD_BARRIER + (consumer ^ 1), CONSUMERS * GROUP); };
        auto await = [&] { groupSync(LEAD_BARRIER + consumer, CONSUMERS * GROUP); };

        waitForPredecessor();
        if (consumer == 1) pass();
        while (work.next()) {
            int row, col;
            origin(p, work.tile, rank, size, row, col);
            row += firstRow;
            col += firstColumn;
            float sum[MMAS][WIDTH / 2];
#pragma unroll
            for (int i = 0; i < MMAS * WIDTH / 2; ++i) sum[i / (WIDTH / 2)][i % (WIDTH / 2)] = 0;
            float part[PART / 2];

            // Scales of B come from memory a step before they are needed, those of columns a tile before.
            const float *blocks[CHUNKS];
            float scale[CHUNKS], ahead[CHUNKS], column[(WIDTH + GROUP - 1) / GROUP];
            if constexpr (GROUPED) {
#pragma unroll
                for (int c = 0; c < CHUNKS; ++c) {
                    blocks[c] = p.scalesB + static_cast<int64_t>(min(col + c * CHUNK, p.cols - 1) / BLOCK) * p.groups;
                    ahead[c] = __ldg(blocks[c] + work.begin);
                }
            } else {
#pragma unroll
                for (int c = 0; c * GROUP < WIDTH; ++c) {
                    const int n = c * GROUP + thread;
                    column[c] = n < WIDTH && col + n < p.cols ? __ldg(p.scalesB + col + n) : 0.f;
                }
            }
            auto issue = [&](int unit) {
                barrierWait(at.full + 8 * stage, parity); // also keeps the last unit's additions before the turn is awaited
                const uint32_t tokens = here.tokens + unit / PARTS * (64 * STEP_BYTES / 16);
                const uint32_t weights = here.weights + unit % PARTS * (PART * STEP_BYTES / 16);
                await();
                wgmmaFence();
#pragma unroll
                for (int k = 0; k < STEP_BYTES / 32; ++k) {
                    Wgmma<Operand::E4M3, PART>::add(part, withUpper(tokens + 2 * k), withUpper(weights + 2 * k), k > 0);
                    if (k + 1 == PASS) wgmmaCommit();
                }
                wgmmaCommit();
                if (PASS > 0) wgmmaWait<1>();
                pass();
            };
            // finish adds a unit whose products were issued last.
            auto finish = [&](int unit) {
                const int mma = unit / PARTS, begin = unit % PARTS * PART;
                float factor[2][CHUNKS];
                if constexpr (GROUPED) {
                    const uint32_t from = tokenScales + stage * SCALES_BYTES + mma * (64 * 4);
                    const float x = loadShared4(from), y = loadShared4(from + 8 * 4);
#pragma unroll
                    for (int c = 0; c < CHUNKS; ++c) {
                        factor[0][c] = x * scale[c];
                        factor[1][c] = y * scale[c];
                    }
                }
                wgmmaWait<0>();
#pragma unroll
                for (int i = 0; i < PART / 2; ++i) asm volatile("" : "+f"(part[i])::"memory");
                if (unit == UNITS - 1) release();
#pragma unroll
                for (int i = 0; i < PART / 2; ++i) {
                    float &to = sum[mma][begin / 2 + i];
                    if constexpr (GROUPED)
                        to += part[i] * factor[i / 2 % 2][(begin + i / 4 * 8) / CHUNK];
                    else
                        to += part[i];
                }
#pragma unroll
                for (int i = 0; i < PART / 2; ++i) asm volatile("" : "+f"(sum[mma][begin / 2 + i])::"memory");
            };
#pragma unroll 1
            for (int step = work.begin; step < work.end; ++step) {
#pragma unroll
                for (int unit = 0; unit < UNITS; ++unit) {
                    issue(unit);
                    if (GROUPED && unit == 0) {
#pragma unroll
                        for (int c = 0; c < CHUNKS; ++c) {
                            scale[c] = ahead[c];
                            ahead[c] = __ldg(blocks[c] + min(step + 1, p.steps - 1));
                        }
                    }
                    finish(unit);
                }
                advance();
            }
            if (work.end < work.steps) {
                Held::keep(p, blockIdx.x, consumer, GROUP_BARRIER + consumer, sum);
                continue;
            }
            if (work.begin > 0) {
                const int begin = work.tile * p.steps;
                int other = work.cluster;
                do {
                    --other;
                    Held::take(p, other * size + rank, consumer, GROUP_BARRIER + consumer, sum);
                } while (p.cut.runBegin(other, work.clusters) > begin);
            }
            if constexpr (!GROUPED) {
                groupSync(GROUP_BARRIER + consumer, GROUP); // all have read those of the last tile
#pragma unroll
                for (int c = 0; c * GROUP < WIDTH; ++c)
                    if (c * GROUP + thread < WIDTH) storeShared4(columnScales + (c * GROUP + thread) * 4, column[c]);
                groupSync(GROUP_BARRIER + consumer, GROUP);
#pragma unroll
                for (int mma = 0; mma < MMAS; ++mma) {
                    const int m = row + mma * 64 + threadRow();
                    const float x = m < p.rows ? __ldg(p.scalesA + m) : 0.f, y = m + 8 < p.rows ? __ldg(p.scalesA + m + 8) : 0.f;
#pragma unroll
                    for (int j = 0; j < WIDTH / 8; ++j) {
                        const float2 b = loadShared8(columnScales + (8 * j + threadColumn()) * 4);
                        sum[mma][4 * j] *= x * b.x;
                        sum[mma][4 * j + 1] *= x * b.y;
                        sum[mma][4 * j + 2] *= y * b.x;
                        sum[mma][4 * j + 3] *= y * b.y;
                    }
                }
            }
            Held::store(p, at.boxes, sum, row, col, box);
        }
        if (consumer == 0) await(); // the last turn was passed, too
        waitStoresRead<0>();
    }

    static __device__ __forceinline__ void run(const ScaledParams &p) {
        extern __shared__ __align__(1024) char raw[];
        const Places at(p, sharedAddress(raw));
        const int rank = clusterRank(), size = clusterSize();
        if (threadIdx.x == 0) {
            prefetchMap(&p.a);
            prefetchMap(&p.b);
            if (GROUPED) prefetchMap(&p.tokenScales);
            if (p.aligned) prefetchMap(&p.c);
            for (int i = 0; i < p.stages; ++i) {
                barrierInit(at.full + 8 * i, 1);
                barrierInit(at.empty + 8 * i, CONSUMERS * GROUP / 32 * size);
            }
            barrierInitFence();
        }
        if (size > 1)
            clusterSync();
        else
            __syncthreads();
        dependentsMayStart();
        if (threadIdx.x < GROUP) {
            registersDown<24>();
            if (threadIdx.x == 0) produce(p, at, rank, size);
        } else {
            registersUp<240>();
            consume(p, at, rank, size);
        }
        // A block stays until its partner sends it nothing more.
        if (size > 1) clusterSync();
    }
};

} // namespace scaled

#define GA_HOPPER_SCALED_WIDE(BY, SUFFIX, TOKENS, COLUMNS, MMAS, WIDTH, BESIDE)                                               \
    extern "C" __global__ void __launch_bounds__(scaled::THREADS, 1) ga_hopper_scaled_wide_##SUFFIX##_##TOKENS##x##COLUMNS( \
        const __grid_constant__ ScaledParams p) {                                                                             \
        scaled::Wide<MMAS, WIDTH, BESIDE, scaled::By::BY>::run(p);                                                            \
    }
#define GA_HOPPER_SCALED_WIDE_ALL(BY, SUFFIX)                     \
    GA_HOPPER_SCALED_WIDE(BY, SUFFIX, 64, 128, 1, 64, true)       \
    GA_HOPPER_SCALED_WIDE(BY, SUFFIX, 64, 192, 1, 96, true)       \
    GA_HOPPER_SCALED_WIDE(BY, SUFFIX, 64, 256, 1, 128, true)      \
    GA_HOPPER_SCALED_WIDE(BY, SUFFIX, 128, 64, 1, 64, false)      \
    GA_HOPPER_SCALED_WIDE(BY, SUFFIX, 128, 128, 1, 128, false)    \
    GA_HOPPER_SCALED_WIDE(BY, SUFFIX, 128, 192, 1, 192, false)    \
    GA_HOPPER_SCALED_WIDE(BY, SUFFIX, 128, 256, 2, 128, true)     \
    GA_HOPPER_SCALED_WIDE(BY, SUFFIX, 256, 128, 2, 128, false)

GA_HOPPER_SCALED_WIDE_ALL(BLOCK, block)
GA_HOPPER_SCALED_WIDE_ALL(COLUMN, column)
