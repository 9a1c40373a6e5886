// arch: 90a
//
// hopper_grouped: C[i] = A[i]·B[group of i]ᵀ by TMA and wgmma, for rows that are sorted by group, as a mixture of
// experts multiplies them. Compute capability 9.0.
//
// Sides     Weights lie on wgmma's rows, which come in 64s, tokens on its columns, which come in 8s: a group has
//           any number of rows, the weights of a model a multiple of 128.
// Tile      128 rows of weights × up to MOST tokens × 128 bytes of K a step. A group with r rows has
//           T = ceil(r ÷ MOST) tiles of tokens, all of the same width, a multiple of 16: a group of 200 rows
//           multiplies 2·112 and not 2·192. So a group wastes at most 16 rows a tile, whatever its size.
// Threads   3 warpgroups: one thread of the first feeds the ring by TMA; the others take turns, a tile each, as
//           in hopper.cu's kernels whose name ends in _turns.
// Shared    the ring, boxes through which C leaves, barriers; where each group's rows and tiles begin.
// Sizes     Rows of each group are read on the device. Every block finds the tiles of all groups by itself.
//           Rows of group g begin at the sum of the sizes before it, or at g·stride: the form in which decoders,
//           which launch the same graph at each step, leave room for every group.
// Grid      Persistent. Tiles of a group that share weights follow each other, so that weights come from memory
//           once. The first tiles are cut along K where whole ones would leave multiprocessors idle (see Walk).
// Streams   Tiles of large groups take tensor cores, those of small ones memory. So that both are busy all the
//           time, tiles are walked from several places at once, which the blocks visit in turn.
// Clusters  Two blocks of different weights and the same tokens fetch half of the tokens each, for both.
#include "hopper_sums.cuh"
#include "hopper_walk.cuh"
#include "wgmma.cuh"

// GroupedParams are a launch: a is the weights of all groups below each other, b the tokens in boxes of 64 rows.
// rows is the N of a group, cols the rows of A.
struct GroupedParams : HopperParams {
    TensorMap tokens32, tokens16; // b in boxes of 32 and 16 rows
    const int *sizes;             // of each group, in rows
    int groups;
    int stride; // from one group's first row to the next one's; 0: they follow each other
    int rounds; // of tiles that are cut along K: 0, the last incomplete one, or 2: one more
    int late;   // sizes are written by the launch before
    int streams; // in which tiles are walked side by side
};

namespace {

constexpr int ROWS = 128; // of weights in a tile
constexpr int MMAS = ROWS / 64;
constexpr int THREADS = GROUP * (CONSUMERS + 1);
constexpr int SHARED_MAX = 227 * 1024;
constexpr int MOST_GROUPS = 512;
constexpr int MOST_BAND = 16;    // tiles of tokens that are walked together
constexpr int LEAST_CUT = 8;     // steps of K of a cut tile's part, at least
constexpr int MOST_LINE = 0x7fffffff;
constexpr int TURN_BARRIER = 4;  // and 5: one for each consumer
constexpr int WEIGHTS_BYTES = ROWS * STEP_BYTES;

// Table is where each group's rows and tiles begin; the entry after the last one ends it.
struct Table {
    int tiles[MOST_GROUPS + 1];
    int first[MOST_GROUPS];
    int size[MOST_GROUPS];
};

// Piece is a tile: of which group, where it lies, and how many tokens wide it is.
struct Piece {
    int weights, token; // first row of weights in the group, first row of A
    int above;          // rows of weights of the groups before
    int end;            // the group's rows of A end here
    int width;
    bool once; // the weights are needed by this tile only
};

template <Operand T, class Out, int MOST>
struct Grouped {
    using Acc = typename Sum<T>::type;
    static constexpr int STAGE_BYTES = WEIGHTS_BYTES + MOST * STEP_BYTES;
    static constexpr int STEP_ELEMENTS = STEP_BYTES / (T == Operand::E4M3 ? 1 : 2);
    static constexpr int BOXES_BYTES = CONSUMERS * 4 * BOXES * BOX_BYTES;
    static constexpr int TABLE_BYTES = (sizeof(Table) + 15) / 16 * 16;
    static constexpr int FIT = (SHARED_MAX - 1024 - 256 - BOXES_BYTES - TABLE_BYTES) / STAGE_BYTES;
    static constexpr int STAGES = FIT < 10 ? FIT : 10;
    static constexpr int BOXES_AT = STAGES * STAGE_BYTES;
    static constexpr int BARRIERS_AT = BOXES_AT + BOXES_BYTES;
    static constexpr int TABLE_AT = BARRIERS_AT + 256;
    static constexpr bool MANY = MMAS * MOST / 2 > 128; // sums a thread
    static_assert(MOST % 16 == 0 && STAGES >= 3, "tile");

    static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) { return shared + BARRIERS_AT + 8 * stage; }

    static __device__ __forceinline__ int tilesOf(int size) { return (size + MOST - 1) / MOST; }

    // fill reads the sizes, each lane those of a run of groups, and adds them up.
    static __device__ __forceinline__ void fill(const GroupedParams &p, Table &table) {
        if (threadIdx.x >= 32) return;
        const int each = (p.groups + 31) / 32, from = threadIdx.x * each, to = min(from + each, p.groups);
        int rows = 0, tiles = 0;
        for (int g = from; g < to; ++g) {
            const int size = __ldg(p.sizes + g);
            table.size[g] = size;
            rows += size;
            tiles += tilesOf(size) * p.rowTiles;
        }
        int rowsBefore = rows, tilesBefore = tiles;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const int r = __shfl_up_sync(~0u, rowsBefore, d), t = __shfl_up_sync(~0u, tilesBefore, d);
            if (threadIdx.x >= d) {
                rowsBefore += r;
                tilesBefore += t;
            }
        }
        rowsBefore -= rows;
        tilesBefore -= tiles;
        for (int g = from; g < to; ++g) {
            table.first[g] = p.stride > 0 ? g * p.stride : rowsBefore;
            table.tiles[g] = tilesBefore;
            rowsBefore += table.size[g];
            tilesBefore += tilesOf(table.size[g]) * p.rowTiles;
        }
        if (threadIdx.x == 31) table.tiles[p.groups] = tilesBefore;
    }

    static __device__ __forceinline__ Cut cut(const GroupedParams &p, int tiles, int clusters) {
        const int rest = tiles % clusters;
        int cut = rest == 0 || p.rounds == 0 ? 0 : rest + (p.rounds - 1) * clusters;
        if (cut > tiles) cut = rest;
        const int64_t steps = static_cast<int64_t>(cut) * p.steps;
        if (steps < LEAST_CUT * clusters || steps > MOST_LINE) cut = 0;
        const int line = cut * p.steps;
        return {cut, line / clusters, line % clusters};
    }
    static __device__ __forceinline__ Walk walk(const GroupedParams &p, const Table &table, int size) {
        const int tiles = table.tiles[p.groups], clusters = gridDim.x / size;
        return Walk(cut(p, tiles, clusters), tiles, p.steps, blockIdx.x / size, clusters);
    }

    static __device__ __forceinline__ Piece find(const GroupedParams &p, const Table &table, int tile, int rank, int size) {
        const int apart = table.tiles[p.groups] / p.streams; // of the streams
        if (tile < apart * p.streams) tile = tile % p.streams * apart + tile / p.streams;
        int low = 0, high = p.groups; // tiles[low] <= tile < tiles[high]
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (table.tiles[middle] <= tile)
                low = middle;
            else
                high = middle;
        }
        const int rows = table.size[low], across = tilesOf(rows);
        const int bands = (across + MOST_BAND - 1) / MOST_BAND, band = (across + bands - 1) / bands;
        const Raster<unsigned> at(tile - table.tiles[low], band, across, p.rowTiles);
        Piece piece;
        piece.width = (rows + across - 1) / across;
        piece.width = (piece.width + 15) / 16 * 16;
        piece.token = table.first[low] + at.row * piece.width;
        piece.end = table.first[low] + rows;
        piece.weights = (at.column * size + rank) * ROWS;
        piece.above = low * p.rows;
        piece.once = across == 1;
        return piece;
    }

    static __device__ __forceinline__ void loadWeights(const GroupedParams &p, const Piece &piece, uint32_t to, uint32_t bar, int step) {
        loadBox(to, &p.a, step * STEP_ELEMENTS, piece.above + piece.weights, bar, piece.once ? EVICT_FIRST : EVICT_NORMAL);
    }

    // loadTokens fetches the tile's tokens in boxes of 64, 32 and 16 rows. In a cluster the blocks take turns.
    static __device__ __forceinline__ void loadTokens(const GroupedParams &p, const Piece &piece, uint32_t to, uint32_t bar, int step,
                                                      int rank, int size) {
        const int x = step * STEP_ELEMENTS;
        int turn = 0;
        auto load = [&](const TensorMap *map, int at) {
            if (size == 1)
                loadBox(to + WEIGHTS_BYTES + at * STEP_BYTES, map, x, piece.token + at, bar);
            else if ((turn++ & 1) == rank)
                loadBoxMulticast(to + WEIGHTS_BYTES + at * STEP_BYTES, map, x, piece.token + at, bar, 3);
        };
        int at = 0;
        if (MOST >= 64) {
#pragma unroll 1
            for (; at + 64 <= piece.width; at += 64) load(&p.b, at);
        }
        if (MOST >= 32 && piece.width & 32) {
            load(&p.tokens32, at);
            at += 32;
        }
        if (piece.width & 16) load(&p.tokens16, at);
    }

    static __device__ __forceinline__ void produce(const GroupedParams &p, const Table &table, uint32_t shared, int rank, int size) {
        Walk work = walk(p, table, size);
        uint32_t to = shared, bar = full(shared, 0), parity = 0;
        auto advance = [&] {
            to += STAGE_BYTES;
            bar += 8;
            if (to == shared + BOXES_AT) {
                to = shared;
                bar = full(shared, 0);
                parity ^= 1;
            }
        };
        // Weights do not depend on the launch before: fill the ring with them while it ends.
        bool more = work.next();
        Piece piece;
        int ahead = 0;
        if (more) {
            piece = find(p, table, work.tile, rank, size);
            ahead = min(STAGES, work.end - work.begin);
#pragma unroll 1
            for (int i = 0; i < ahead; ++i) {
                barrierExpect(bar, WEIGHTS_BYTES + piece.width * STEP_BYTES);
                loadWeights(p, piece, to, bar, work.begin + i);
                advance();
            }
        }
        waitForPredecessor();
        to = shared;
        bar = full(shared, 0);
        parity = 0;
        while (more) {
            int step = work.begin;
#pragma unroll 1
            for (; ahead > 0; --ahead, ++step) {
                loadTokens(p, piece, to, bar, step, rank, size);
                advance();
            }
#pragma unroll 1
            for (; step < work.end; ++step) {
                barrierWait(bar + 8 * STAGES, parity ^ 1);
                barrierExpect(bar, WEIGHTS_BYTES + piece.width * STEP_BYTES);
                loadWeights(p, piece, to, bar, step);
                loadTokens(p, piece, to, bar, step, rank, size);
                advance();
            }
            more = work.next();
            if (more) piece = find(p, table, work.tile, rank, size);
        }
    }

    // Consumer is what a warpgroup keeps from one piece to the next.
    struct Consumer {
        const GroupedParams &p;
        uint32_t shared;
        int consumer, thread, rank, size;
        int index = 0; // in the ring
        uint32_t parity = 0;
        int box = 0;

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
        __device__ __forceinline__ void release(int stage) const {
            if (thread < size) barrierArriveAt(full(shared, STAGES + stage), thread);
        }
        __device__ __forceinline__ void yield() const { groupArrive(TURN_BARRIER + (consumer ^ 1), CONSUMERS * GROUP); }
        __device__ __forceinline__ void await() const { groupSync(TURN_BARRIER + consumer, CONSUMERS * GROUP); }

        __device__ __forceinline__ float4 *partial(int block) const {
            return reinterpret_cast<float4 *>(p.partial) + block * (MMAS * MOST / 8) * GROUP + thread;
        }

        // multiply computes a piece of WIDTH tokens and stores it, or what it holds of one that is cut.
        template <int WIDTH>
        __device__ __forceinline__ void multiply(const Walk &work, const Piece &piece) {
            Acc sum[MMAS][WIDTH / 2];
#pragma unroll
            for (int i = 0; i < MMAS * WIDTH / 2; ++i) sum[i / (WIDTH / 2)][i % (WIDTH / 2)] = 0;
            int last = 0;
            const int yields = max(work.begin, work.end - p.lead);
#pragma unroll 1
            for (int step = work.begin; step < work.end; ++step) {
                barrierWait(full(shared, index), parity);
                if (step == yields) yield();
                const uint32_t at = shared + index * STAGE_BYTES;
                const uint64_t a = wgmmaDescriptor(at), b = wgmmaDescriptor(at + WEIGHTS_BYTES);
                wgmmaFence();
#pragma unroll
                for (int k = 0; k < STEP_BYTES / 32; ++k)
#pragma unroll
                    for (int mma = 0; mma < MMAS; ++mma)
                        Wgmma<T, WIDTH>::add(sum[mma], a + 2 * k + mma * (64 * STEP_BYTES / 16), b + 2 * k, 1);
                wgmmaCommit();
                wgmmaWait<1>();
                if (step > work.begin) release(last);
                last = index;
                advance();
            }
            wgmmaWait<0>();
            release(last);

            if (work.end < work.steps) {
                const int block = work.cluster * size + rank;
                putPartial<MMAS * WIDTH / 8>(partial(block), &sum[0][0]);
                GA_HAND_OVER(GROUP_BARRIER + consumer, p.ready + block);
                return;
            }
            if (work.begin > 0) {
                const int first = work.tile * p.steps;
                int other = work.cluster;
                do {
                    --other;
                    const int block = other * size + rank;
                    if (thread == 0) awaitHandOver(p.ready + block);
                    groupSync(GROUP_BARRIER + consumer, GROUP);
                    addPartial<MMAS * WIDTH / 8>(partial(block), &sum[0][0]);
                } while (cut(p, work.tiles, work.clusters).runBegin(other, work.clusters) > first);
            }
            store<WIDTH>(sum, piece);
        }

        // store writes the sums to C, whose rows are the columns of the sums. The warps hold 16 of the 64 elements of a
        // box's row each, so they fill four boxes together and send one each: by TMA, or row by row where the group
        // ends within the box.
        template <int WIDTH>
        __device__ __forceinline__ void store(Acc (&sum)[MMAS][WIDTH / 2], const Piece &piece) {
            using Held = Sums<Acc, Out, MMAS, WIDTH, 1>;
            const int lane = thread % 32, warp = thread / 32;
            const uint32_t boxes = shared + BOXES_AT + consumer * Held::BOXES_BYTES;
#pragma unroll
            for (int mma = 0; mma < MMAS; ++mma) {
                const int column = piece.weights + mma * 64;
                if (column >= p.rows) break;
#pragma unroll
                for (int part = 0; part < WIDTH; part += 4 * BOX_ROWS) {
                    if (lane == 0) waitStoresRead<BOXES - 1>();
                    groupSync(GROUP_BARRIER + consumer, GROUP);
                    const uint32_t to = boxes + box * (4 * BOX_BYTES);
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        if (part + i * BOX_ROWS >= WIDTH) break;
                        const Acc *d = &sum[mma][(part + i * BOX_ROWS) / 2];
                        // Lane l addresses row 8·(l/16) + l%8 of this warp's columns 8·(l/8%2) and the next 8.
                        const uint32_t line = to + i * BOX_BYTES + (lane / 16 * 8 + lane % 8) * STEP_BYTES;
                        const uint32_t chunk = (2 * warp + lane / 8 % 2) ^ (lane % 8);
                        storeMatrices4Transposed(line + chunk * 16, Out::pack(d[0], d[1]), Out::pack(d[2], d[3]), Out::pack(d[4], d[5]),
                                                 Out::pack(d[6], d[7]));
                    }
                    sharedToAsync();
                    groupSync(GROUP_BARRIER + consumer, GROUP);
                    const int row = piece.token + part + warp * BOX_ROWS;
                    if (part + warp * BOX_ROWS < WIDTH && row < piece.end) {
                        const uint32_t from = to + warp * BOX_BYTES;
                        if (!p.aligned)
                            Held::copyBox(p, from, row, piece.end, column, p.rows);
                        else if (row + BOX_ROWS > piece.end)
                            storeRows(from, row, piece.end, column);
                        else if (lane == 0)
                            storeBox(&p.c, from, column, row);
                    }
                    if (lane == 0) commitStores();
                    box ^= 1;
                }
            }
        }

        // storeRows writes the rows of a box before end, 16 bytes a lane, to an aligned C.
        __device__ __forceinline__ void storeRows(uint32_t from, int row, int end, int column) const {
            constexpr int PER = 16 / sizeof(typename Out::type);
            const int lane = thread % 32, at = column + lane % 8 * PER;
#pragma unroll 1
            for (int r = lane / 8; r < end - row; r += 4) {
                uint4 v;
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                             : "r"(from + r * STEP_BYTES + (lane % 8 ^ r % 8) * 16)
                             : "memory");
                if (at < p.rows) *reinterpret_cast<uint4 *>(static_cast<typename Out::type *>(p.out) + (row + r) * p.ldc + at) = v;
            }
        }

        template <int WIDTH>
        __device__ __forceinline__ void dispatch(const Walk &work, const Piece &piece) {
            if constexpr (WIDTH > 16) {
                if (piece.width < WIDTH) {
                    dispatch<WIDTH - 16>(work, piece);
                    return;
                }
            }
            multiply<WIDTH>(work, piece);
        }

        // pass frees the stages of a piece whose rows of weights are beyond the group's.
        __device__ __forceinline__ void pass(const Walk &work) {
#pragma unroll 1
            for (int step = work.begin; step < work.end; ++step) {
                // Without wgmma nothing holds the warps together: one warp alone goes through the ring.
                if (thread < 32) {
                    barrierWait(full(shared, index), parity);
                    release(index);
                }
                advance();
            }
            groupSync(GROUP_BARRIER + consumer, GROUP);
            yield();
        }
    };

    static __device__ __forceinline__ void consume(const GroupedParams &p, const Table &table, uint32_t shared, int rank, int size) {
        const int consumer = static_cast<int>(threadIdx.x) / GROUP - 1;
        Consumer c{p, shared, consumer, static_cast<int>(threadIdx.x) % GROUP, rank, size};
        Walk work = walk(p, table, size);
        // One that takes turns looks at the ring only when the other says so: the phases of a
        // ring that is laps behind would look like those that it waits for.
        int turn = 0; // whose the piece after this one is
        bool fresh = true;
        waitForPredecessor();
        while (work.next()) {
            turn ^= 1;
            if (turn == consumer) { // the other's
                c.skip(work.end - work.begin);
                fresh = false;
                continue;
            }
            const Piece piece = find(p, table, work.tile, rank, size);
            if (!fresh) c.await();
            fresh = false;
            if (piece.weights >= p.rows)
                c.pass(work);
            else
                c.template dispatch<MOST>(work, piece);
        }
        if (turn == consumer && !fresh) c.await(); // the last one yielded, too
        waitStoresRead<0>();
    }

    static __device__ __forceinline__ void run(const GroupedParams &p) {
        extern __shared__ char raw[];
        const uint32_t shared = (sharedAddress(raw) + 1023) & ~1023u;
        Table &table = *reinterpret_cast<Table *>(raw + (shared - sharedAddress(raw)) + TABLE_AT);
        const int rank = clusterRank(), size = clusterSize();
        if (threadIdx.x == GROUP) {
            prefetchMap(&p.a);
            prefetchMap(&p.b);
            prefetchMap(&p.tokens32);
            prefetchMap(&p.tokens16);
            if (p.aligned) prefetchMap(&p.c);
            for (int i = 0; i < STAGES; ++i) {
                barrierInit(full(shared, i), 1);
                barrierInit(full(shared, STAGES + i), size);
            }
            barrierInitFence();
        }
        if (p.late) waitForPredecessor();
        fill(p, table);
        if (size > 1)
            clusterSync();
        else
            __syncthreads();
        dependentsMayStart();

        if (threadIdx.x < GROUP) {
            registersDown<MANY ? 24 : 40>();
            if (threadIdx.x == 0) produce(p, table, shared, rank, size);
        } else {
            registersUp<MANY ? 240 : 232>();
            consume(p, table, shared, rank, size);
        }
        // A block stays until its partner sends it nothing more.
        if (size > 1) clusterSync();
    }
};

} // namespace

#define GA_HOPPER_GROUPED(NAME, T, OUT, MOST)                                    \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) ga_hopper_grouped_##NAME##_##MOST( \
        const __grid_constant__ GroupedParams p) {                               \
        Grouped<Operand::T, OUT, MOST>::run(p);                                  \
    }
#define GA_HOPPER_GROUPED_ALL(NAME, T, OUT) \
    GA_HOPPER_GROUPED(NAME, T, OUT, 16)     \
    GA_HOPPER_GROUPED(NAME, T, OUT, 32)     \
    GA_HOPPER_GROUPED(NAME, T, OUT, 64)     \
    GA_HOPPER_GROUPED(NAME, T, OUT, 128)    \
    GA_HOPPER_GROUPED(NAME, T, OUT, 192)

GA_HOPPER_GROUPED_ALL(bf16, BF16, BfloatOut)
GA_HOPPER_GROUPED_ALL(fp16, FP16, HalfOut)
GA_HOPPER_GROUPED_ALL(fp8, E4M3, BfloatOut)
