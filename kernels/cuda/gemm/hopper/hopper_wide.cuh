// The kernel of hopper.cu and hopper_fp16.cu, one template for all tiles and types.
#pragma once

#include "hopper_sums.cuh"
#include "hopper_tiles.cuh"
#include "hopper_walk.cuh"
#include "wgmma.cuh"

// WideParams is what a launch is told.
struct WideParams : HopperParams {
    int lastRow, lastCol; // where a block's tile begins at the latest
};

namespace {

constexpr int THREADS = GROUP * (CONSUMERS + 1);
constexpr int SHARED_MAX = 227 * 1024;
constexpr int MOST_BOX_ROWS = 256; // of TMA
constexpr int LEAD_BARRIER = 1;
constexpr int TURN_BARRIER = 4; // and 5: one for each consumer

// Stage counts the ring's position and the parity of its lap.
template <int STAGES>
struct Stage {
    int index = 0;
    uint32_t parity = 0;
    __device__ __forceinline__ void advance() {
        if (++index == STAGES) {
            index = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ void skip(int steps) {
        const unsigned to = index + steps;
        parity ^= to / STAGES & 1;
        index = to % STAGES;
    }
};

template <Operand T, class Out, int BM, int BN, bool TRANSPOSED, bool TURNS>
struct Hopper {
    using Acc = typename Sum<T>::type;
    // Consumers that share a tile lie below each other or, where rows don't divide or columns are
    // more than wgmma has, side by side.
    static constexpr int SHARES = TURNS ? 1 : CONSUMERS;
    static constexpr bool BESIDE = BM % (64 * SHARES) != 0 || BN > 256;
    static constexpr int MMAS = BESIDE ? BM / 64 : BM / (64 * SHARES); // wgmma rows of 64 a consumer
    static constexpr int WIDTH = BESIDE ? BN / SHARES : BN;            // and columns
    static constexpr bool MANY = MMAS * WIDTH / 2 > 128;               // sums a thread
    static constexpr int PRODUCER_REGISTERS = MANY ? 24 : 40;
    static constexpr int CONSUMER_REGISTERS = MANY ? 240 : 232;
    using Held = Sums<Acc, Out, MMAS, WIDTH, SHARES>;
    static constexpr int A_BYTES = BM * STEP_BYTES;
    static constexpr int B_BYTES = BN * STEP_BYTES;
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int STEP_ELEMENTS = STEP_BYTES / (T == Operand::TF32 ? 4 : T == Operand::FP16 || T == Operand::BF16 ? 2 : 1);
    static constexpr int BOXES_BYTES = CONSUMERS * Held::BOXES_BYTES;
    // As many stages as fit, up to six.
    static constexpr int FIT = (SHARED_MAX - 1024 - 128 - BOXES_BYTES) / STAGE_BYTES;
    static constexpr int STAGES = FIT < 6 ? FIT : 6;
    static constexpr int BOXES_AT = STAGES * STAGE_BYTES;
    static constexpr int BARRIERS_AT = BOXES_AT + BOXES_BYTES;
    static_assert(BM % 64 == 0 && WIDTH % 8 == 0 && WIDTH >= (TRANSPOSED ? BOX_ROWS : Held::BOX_COLS) && STAGES >= 3, "tile");
    static_assert(!TRANSPOSED || sizeof(typename Out::type) == 2, "only matrices of 16-bit elements can be stored transposed");

    static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) { return shared + BARRIERS_AT + 8 * stage; }
    static __device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) {
        return shared + BARRIERS_AT + 8 * (STAGES + stage);
    }

    // Where this block's part of the cluster's tile begins.
    static __device__ __forceinline__ void origin(const WideParams &p, int tile, int rank, int size, int &row, int &col) {
        place(p, tile, row, col);
        if (size == 2) {
            if (p.pairRows)
                row = 2 * row + rank;
            else
                col = 2 * col + rank;
        }
        row = min(row * BM, p.lastRow);
        col = min(col * BN, p.lastCol);
    }

    // Fetch holds where the producer stands. The loop that one thread runs has to keep up
    // with two warpgroups of tensor cores: what does not change is worked out before it.
    struct Fetch {
        const WideParams &p;
        uint32_t shared;
        uint32_t to, bar, parity; // the stage, its full barrier, and the lap
        // Of a cluster's common operand each block fetches half, for both.
        bool halfA, halfB;
        uint32_t partA, partB; // where this block's part of a stage begins

        __device__ __forceinline__ Fetch(const WideParams &p, uint32_t shared, int rank, int size)
            : p(p), shared(shared), halfA(size == 2 && !p.pairRows), halfB(size == 2 && p.pairRows),
              partA(halfA ? rank * (A_BYTES / 2) : 0), partB(A_BYTES + (halfB ? rank * (B_BYTES / 2) : 0)) {
            restart();
        }
        __device__ __forceinline__ void restart() {
            to = shared;
            bar = full(shared, 0);
            parity = 0;
        }
        __device__ __forceinline__ void advance() {
            to += STAGE_BYTES;
            bar += 8;
            if (to == shared + BOXES_AT) {
                to = shared;
                bar = full(shared, 0);
                parity ^= 1;
            }
        }
        // x is the first element of K; row and col are where this block's part begins.
        __device__ __forceinline__ void loadA(int x, int row) { load<BM>(&p.a, halfA, to + partA, x, row); }
        __device__ __forceinline__ void loadB(int x, int col) { load<BN>(&p.b, halfB, to + partB, x, col); }
        // A box is half of the operand's rows where the blocks of a cluster share them, and where they are too many for one.
        template <int ROWS>
        __device__ __forceinline__ void load(const TensorMap *map, bool half, uint32_t at, int x, int row) {
            if (half) {
                loadBoxMulticast(at, map, x, row, bar, 3);
                return;
            }
            loadBox(at, map, x, row, bar);
            if constexpr (ROWS > MOST_BOX_ROWS) loadBox(at + ROWS / 2 * STEP_BYTES, map, x, row + ROWS / 2, bar);
        }
        __device__ __forceinline__ void start(int tile, int rank, int size, int &row, int &col) {
            origin(p, tile, rank, size, row, col);
            row += partA / STEP_BYTES;
            col += (partB - A_BYTES) / STEP_BYTES;
        }
    };

    static __device__ __forceinline__ void produce(const WideParams &p, uint32_t shared, int rank, int size) {
        Walk work(p.cut, p.rowTiles * p.colTiles, p.steps, blockIdx.x / size, gridDim.x / size);
        Fetch fetch(p, shared, rank, size);
        int row, col;

        // Weights do not depend on the launch before: fill the ring with them while it ends.
        bool more = work.next();
        int ahead = 0;
        if (more) {
            fetch.start(work.tile, rank, size, row, col);
            ahead = min(STAGES, work.end - work.begin);
#pragma unroll 1
            for (int i = 0; i < ahead; ++i) {
                barrierExpect(fetch.bar, STAGE_BYTES);
                if (TRANSPOSED)
                    fetch.loadA((work.begin + i) * STEP_ELEMENTS, row);
                else
                    fetch.loadB((work.begin + i) * STEP_ELEMENTS, col);
                fetch.advance();
            }
        }
        waitForPredecessor();
        fetch.restart();
        while (more) {
            int x = work.begin * STEP_ELEMENTS, end = work.end * STEP_ELEMENTS;
#pragma unroll 1
            for (; ahead > 0; --ahead, x += STEP_ELEMENTS) {
                if (TRANSPOSED)
                    fetch.loadB(x, col);
                else
                    fetch.loadA(x, row);
                fetch.advance();
            }
#pragma unroll 1
            for (; x < end; x += STEP_ELEMENTS) {
                barrierWait(fetch.bar + 8 * STAGES, fetch.parity ^ 1);
                barrierExpect(fetch.bar, STAGE_BYTES);
                fetch.loadA(x, row);
                fetch.loadB(x, col);
                fetch.advance();
            }
            more = work.next();
            if (more) fetch.start(work.tile, rank, size, row, col);
        }
    }

    static __device__ __forceinline__ void consume(const WideParams &p, uint32_t shared, int rank, int size) {
        int consumer = threadIdx.x / GROUP - 1, thread = threadIdx.x % GROUP;
        Walk work(p.cut, p.rowTiles * p.colTiles, p.steps, blockIdx.x / size, gridDim.x / size);
        Stage<STAGES> stage;
        int box = 0;

        auto release = [&](int index) {
            if (thread < size) barrierArriveAt(empty(shared, index), thread);
        };

        // The first consumer lets the second start after `lead` steps.
        int lead = !TURNS && consumer == 0 ? p.lead : 0;
        if (!TURNS && p.lead > 0 && consumer == 1) groupSync(LEAD_BARRIER, CONSUMERS * GROUP);
        auto stepped = [&] {
            if (!TURNS && --lead == 0) groupArrive(LEAD_BARRIER, CONSUMERS * GROUP);
        };
        // One that takes turns looks at the ring only when the other says so: the phases of a
        // ring that is laps behind would look like those that it waits for.
        int turn = 0; // whose the piece after this one is
        bool fresh = true;
        auto yield = [&] { groupArrive(TURN_BARRIER + (consumer ^ 1), CONSUMERS * GROUP); };
        auto await = [&] { groupSync(TURN_BARRIER + consumer, CONSUMERS * GROUP); };
        const int part = TURNS ? 0 : consumer; // of a tile

        waitForPredecessor();
        while (work.next()) {
            if constexpr (TURNS) {
                turn ^= 1;
                if (turn == consumer) { // the other's
                    stage.skip(work.end - work.begin);
                    fresh = false;
                    continue;
                }
                if (!fresh) await();
                fresh = false;
            }
            int row, col;
            origin(p, work.tile, rank, size, row, col);
            if (BESIDE)
                col += part * WIDTH;
            else
                row += part * (MMAS * 64);
            if (row >= p.rows || col >= p.cols) { // nothing to do but to free the stages
#pragma unroll 1
                for (int step = work.begin; step < work.end; ++step) {
                    // Without wgmma nothing holds the warps together; one that fell behind
                    // by a lap would take the next lap's phase for its own.
                    if (thread < 32) {
                        barrierWait(full(shared, stage.index), stage.parity);
                        release(stage.index);
                    }
                    stepped();
                    stage.advance();
                }
                groupSync(GROUP_BARRIER + consumer, GROUP);
                if constexpr (TURNS) yield();
                continue;
            }
            Acc sum[MMAS][WIDTH / 2];
#pragma unroll
            for (int i = 0; i < MMAS * WIDTH / 2; ++i) sum[i / (WIDTH / 2)][i % (WIDTH / 2)] = 0;
            int last = 0;
            const int yields = max(work.begin, work.end - p.lead);
#pragma unroll 1
            for (int step = work.begin; step < work.end; ++step) {
                barrierWait(full(shared, stage.index), stage.parity);
                if (TURNS && step == yields) yield();
                uint32_t at = shared + stage.index * STAGE_BYTES;
                uint64_t a = wgmmaDescriptor(at + (BESIDE ? 0 : part * (MMAS * 64 * STEP_BYTES)));
                uint64_t b = wgmmaDescriptor(at + A_BYTES + (BESIDE ? part * (WIDTH * STEP_BYTES) : 0));
                wgmmaFence();
#pragma unroll
                for (int k = 0; k < STEP_BYTES / 32; ++k)
#pragma unroll
                    for (int mma = 0; mma < MMAS; ++mma)
                        Wgmma<T, WIDTH>::add(sum[mma], a + 2 * k + mma * (64 * STEP_BYTES / 16), b + 2 * k, 1);
                wgmmaCommit();
                stepped();
                wgmmaWait<1>();
                if (step > work.begin) release(last);
                last = stage.index;
                stage.advance();
            }
            wgmmaWait<0>();
            release(last);

            if (work.end < work.steps) {
                Held::keep(p, work.cluster * size + rank, part, GROUP_BARRIER + consumer, sum);
                continue;
            }
            if (work.begin > 0) {
                const int first = work.tile * p.steps;
                int other = work.cluster;
                do {
                    --other;
                    Held::take(p, other * size + rank, part, GROUP_BARRIER + consumer, sum);
                } while (p.cut.runBegin(other, work.clusters) > first);
            }
            if constexpr (Held::DIRECT)
                Held::storeDirect(p, sum, row, col);
            else if constexpr (TRANSPOSED)
                Held::storeTransposed(p, shared + BOXES_AT, sum, row, col, box);
            else
                Held::store(p, shared + BOXES_AT, sum, row, col, box);
        }
        if (lead > 0) groupArrive(LEAD_BARRIER, CONSUMERS * GROUP);
        if (TURNS && turn == consumer && !fresh) await(); // the last one yielded, too
        waitStoresRead<0>();
    }

    static __device__ __forceinline__ void run(const WideParams &p) {
        extern __shared__ char raw[];
        uint32_t shared = (sharedAddress(raw) + 1023) & ~1023u;
        int rank = clusterRank(), size = clusterSize();
        if (threadIdx.x == 0) {
            prefetchMap(&p.a);
            prefetchMap(&p.b);
            if (p.aligned) prefetchMap(&p.c);
            for (int i = 0; i < STAGES; ++i) {
                barrierInit(full(shared, i), 1);
                barrierInit(empty(shared, i), SHARES * size);
            }
            barrierInitFence();
        }
        if (size > 1)
            clusterSync();
        else
            __syncthreads();
        dependentsMayStart();

        if (threadIdx.x < GROUP) {
            registersDown<PRODUCER_REGISTERS>();
            if (threadIdx.x == 0) produce(p, shared, rank, size);
        } else {
            registersUp<CONSUMER_REGISTERS>();
            consume(p, shared, rank, size);
        }
        // A block stays until its partner sends it nothing more.
        if (size > 1) clusterSync();
    }
};

} // namespace

#define GA_HOPPER_AS(NAME, SUFFIX, T, OUT, BM, BN, TRANSPOSED, TURNS)                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) ga_hopper_##NAME##_##BM##x##BN##SUFFIX(             \
        const __grid_constant__ WideParams p) {                                                                \
        Hopper<Operand::T, OUT, BM, BN, TRANSPOSED, TURNS>::run(p);                                              \
    }
#define GA_HOPPER(NAME, T, OUT, BM, BN) GA_HOPPER_AS(NAME, , T, OUT, BM, BN, false, false)
#define GA_HOPPER_T(NAME, T, OUT, BM, BN) GA_HOPPER_AS(NAME, t, T, OUT, BM, BN, true, false)
#define GA_HOPPER_TURNS(NAME, T, OUT, BM, BN) GA_HOPPER_AS(NAME, _turns, T, OUT, BM, BN, false, true)
#define GA_HOPPER_TURNS_T(NAME, T, OUT, BM, BN) GA_HOPPER_AS(NAME, t_turns, T, OUT, BM, BN, true, true)
