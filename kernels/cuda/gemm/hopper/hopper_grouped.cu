// arch: 90a
//
// hopper_grouped: C[i] = A[i]·B[group of i]ᵀ by TMA and wgmma, for rows that are sorted by group, as a mixture of
// experts multiplies them. Compute capability 9.0.
//
// Sides     Weights lie on wgmma's rows, which come in 64s, tokens on its columns, which come in 8s: a group has
//           any number of rows, the weights of a model a multiple of 128.
// Tile      128 or 256 rows of weights × up to MOST tokens × 128 bytes of K a step. A group with r rows has
//           T = ceil(r ÷ MOST) tiles of tokens, all of the same width, a multiple of 16: a group of 200 rows
//           multiplies 2·112 and not 2·192. So a group wastes less than 16 rows a tile, whatever its size.
// Threads   3 warpgroups: one thread of the first feeds the ring by TMA. The others take turns, a tile each, as
//           in hopper.cu's kernels whose name ends in _turns, or share a tile of 256 rows of weights, which
//           fetches less for each product: under the power limit, that is speed.
// Shared    the ring, boxes through which C leaves, barriers, the line of pieces; where each group's rows and
//           tiles begin.
// Sizes     Rows of each group are read on the device. Every block finds the tiles of all groups by itself.
//           Rows of group g begin at the sum of the sizes before it, or at g·stride: the form in which decoders,
//           which launch the same graph at each step, leave room for every group.
// Grid      Persistent. Tiles of a group that share weights follow each other, so that weights come from memory
//           once. The first tiles are cut along K where whole ones would leave multiprocessors idle (see Walk).
//           Of the whole tiles, a block takes the next one when it is done with its own: tiles of large groups
//           take longer than those of small ones. The producer tells the consumers through a line in shared memory.
// Streams   Tiles of large groups take tensor cores, those of small ones memory. So that both are busy all the
//           time, tiles are walked from several places at once, which the blocks visit in turn.
// Repeats   Cut tiles are dealt out in advance and added in the order of K: results repeat bit for bit.
#include "hopper_sums.cuh"
#include "hopper_walk.cuh"
#include "wgmma.cuh"

// GroupedParams are a launch: a is the weights of all groups below each other, b the tokens in boxes of 64 rows.
// rows is the N of a group, cols the rows of A. partial has a tile for each block; ready has a flag for each consumer,
// then the tiles that were taken and the blocks that are done, all zero between launches.
struct GroupedParams : HopperParams {
    TensorMap tokens32, tokens16; // b in boxes of 32 and 16 rows
    const int *sizes;             // of each group, in rows
    int groups;
    int stride;  // from one group's first row to the next one's; 0: they follow each other
    int rounds;  // of tiles that are cut along K: 0, the last incomplete one, or 2: one more
    int late;    // sizes are written by the launch before
    int streams; // in which tiles are walked side by side
    int stages;  // of the ring
};

namespace {

constexpr int CONSUMER_ROWS = 128; // of weights
constexpr int MMAS = CONSUMER_ROWS / 64;
constexpr int THREADS = GROUP * (CONSUMERS + 1);
constexpr int MOST_BAND = 16;   // tiles of tokens that are walked together
constexpr int LEAST_CUT = 8;    // steps of K of a cut tile's part, at least
constexpr int LEAD_BARRIER = 1;
constexpr int TURN_BARRIER = 4; // and 5: one for each consumer
constexpr int MOST_LINE = 0x7fffffff;
constexpr int MOST_STAGES = 10;
constexpr int LINE = 4;         // pieces that the producer may be ahead

// Piece is a tile or a part of one: where it lies and how many tokens wide it is.
struct Piece {
    int tile, begin, end; // steps [begin, end) of K; a tile below 0 ends the line
    int width;
    int weights, token; // first row of weights in the group, first row of A
    int last;           // the group's rows of A end here
    int above;          // rows of weights of the groups before; below 0: the weights are needed once
};

template <Operand T, class Out, int MOST, bool TURNS>
struct Grouped {
    using Acc = typename Sum<T>::type;
    static constexpr int SHARES = TURNS ? 1 : CONSUMERS; // consumers that share a tile
    static constexpr int ROWS = CONSUMER_ROWS * SHARES;
    static constexpr int WEIGHTS_BYTES = ROWS * STEP_BYTES;
    static constexpr int STAGE_BYTES = WEIGHTS_BYTES + MOST * STEP_BYTES;
    static constexpr int STEP_ELEMENTS = STEP_BYTES / (T == Operand::E4M3 ? 1 : 2);
    // Boxes lie first, then the line and the barriers, the ring, the table.
    static constexpr int BOXES_BYTES = CONSUMERS * 4 * BOXES * BOX_BYTES;
    static constexpr int LINE_AT = BOXES_BYTES;
    static constexpr int BARRIERS_AT = LINE_AT + LINE * static_cast<int>(sizeof(Piece));
    static constexpr int RING_AT = BOXES_BYTES + 1024;
    static_assert(BARRIERS_AT + 8 * (2 * MOST_STAGES + 2 * LINE) <= RING_AT, "barriers");
    static constexpr bool MANY = MMAS * MOST / 2 > 128; // sums a thread
    static_assert(MOST % 16 == 0, "tile");

    static __device__ __forceinline__ uint32_t full(uint32_t shared, int stage) { return shared + BARRIERS_AT + 8 * stage; }
    static __device__ __forceinline__ uint32_t told(uint32_t shared, int at) { return shared + BARRIERS_AT + 8 * (2 * MOST_STAGES + at); }

    // Table is where each group's rows and tiles begin; tiles has one entry more.
    struct Table {
        int *tiles, *first, *size;
        __device__ __forceinline__ Table(char *at, int groups)
            : tiles(reinterpret_cast<int *>(at)), first(tiles + groups + 1), size(first + groups) {}
    };

    static __device__ __forceinline__ int tilesOf(int size) { return (size + MOST - 1) / MOST; }

    // fill reads the sizes, each lane those of a run of groups, and adds them up.
    static __device__ __forceinline__ void fill(const GroupedParams &p, const Table &table) {
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
        if (threadIdx.x == 31) table.tiles[p.groups] = tilesBefore;
        rowsBefore -= rows;
        tilesBefore -= tiles;
        for (int g = from; g < to; ++g) {
            table.first[g] = p.stride > 0 ? g * p.stride : rowsBefore;
            table.tiles[g] = tilesBefore;
            rowsBefore += table.size[g];
            tilesBefore += tilesOf(table.size[g]) * p.rowTiles;
        }
    }

    static __device__ __forceinline__ Cut cut(const GroupedParams &p, int tiles) {
        const int blocks = gridDim.x, rest = tiles % blocks;
        int cut = rest == 0 || p.rounds == 0 ? 0 : rest + (p.rounds - 1) * blocks;
        if (cut > tiles) cut = rest;
        const int64_t steps = static_cast<int64_t>(cut) * p.steps;
        if (steps < LEAST_CUT * blocks || steps > MOST_LINE) cut = 0;
        const int line = cut * p.steps;
        return {cut, line / blocks, line % blocks};
    }

    // find completes a piece of a tile.
    static __device__ __forceinline__ void find(const GroupedParams &p, const Table &table, Piece &piece) {
        int tile = piece.tile;
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
        piece.width = ((rows + across - 1) / across + 15) / 16 * 16;
        piece.token = table.first[low] + at.row * piece.width;
        piece.last = table.first[low] + rows;
        piece.weights = at.column * ROWS;
        piece.above = across == 1 ? ~(low * p.rows) : low * p.rows;
    }

    // Producer is the thread that feeds the ring and tells the consumers of what.
    struct Producer {
        const GroupedParams &p;
        const Table &table;
        uint32_t shared;
        Walk work;       // its whole tiles are the first one only
        uint32_t *taken; // whole tiles, beside the first one of each block
        int next;        // the next whole tile
        uint32_t to, bar, parity = 0;
        int at = 0; // in the line
        uint32_t lap = 1;
        Piece piece;

        __device__ __forceinline__ Producer(const GroupedParams &p, const Table &table, uint32_t shared, const Cut &cut)
            : p(p), table(table), shared(shared), work(cut, table.tiles[p.groups], p.steps, blockIdx.x, gridDim.x),
              taken(p.ready + CONSUMERS * gridDim.x), next(cut.tiles + blockIdx.x) {
            restart();
        }
        __device__ __forceinline__ void restart() {
            to = shared + RING_AT;
            bar = full(shared, 0);
            parity = 0;
        }
        __device__ __forceinline__ void advance() {
            to += STAGE_BYTES;
            bar += 8;
            if (to == shared + RING_AT + p.stages * STAGE_BYTES) {
                to = shared + RING_AT;
                bar = full(shared, 0);
                parity ^= 1;
            }
        }

        // find is the next piece, and tell says so to the consumers.
        __device__ __forceinline__ bool find() {
            if (work.high > work.low) {
                work.next();
                piece.tile = work.tile;
                piece.begin = work.begin;
                piece.end = work.end;
            } else if (next < work.tiles) {
                piece.tile = next;
                piece.begin = 0;
                piece.end = p.steps;
            } else {
                return false;
            }
            Grouped::find(p, table, piece);
            return true;
        }
        __device__ __forceinline__ void tell() {
            barrierWait(told(shared, LINE + at), lap);
            const uint32_t entry = shared + LINE_AT + at * static_cast<int>(sizeof(Piece));
            const int *v = &piece.tile;
#pragma unroll
            for (int i = 0; i < static_cast<int>(sizeof(Piece) / 16); ++i)
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(entry + 16 * i), "r"(v[4 * i]), "r"(v[4 * i + 1]),
                             "r"(v[4 * i + 2]), "r"(v[4 * i + 3])
                             : "memory");
            barrierArrive(told(shared, at));
            if (++at == LINE) {
                at = 0;
                lap ^= 1;
            }
        }

        __device__ __forceinline__ void expect() const { barrierExpect(bar, WEIGHTS_BYTES + piece.width * STEP_BYTES); }
        __device__ __forceinline__ void loadWeights(int step) const {
            const bool once = piece.above < 0;
            loadBox(to, &p.a, step * STEP_ELEMENTS, (once ? ~piece.above : piece.above) + piece.weights, bar,
                    once ? EVICT_FIRST : EVICT_NORMAL);
        }
        // loadTokens fetches the tile's tokens in boxes of 64, 32 and 16 rows.
        __device__ __forceinline__ void loadTokens(int step) const {
            const int x = step * STEP_ELEMENTS;
            int at = 0;
            if (MOST >= 64) {
#pragma unroll 1
                for (; at + 64 <= piece.width; at += 64) loadBox(to + WEIGHTS_BYTES + at * STEP_BYTES, &p.b, x, piece.token + at, bar);
            }
            if (MOST >= 32 && piece.width & 32) {
                loadBox(to + WEIGHTS_BYTES + at * STEP_BYTES, &p.tokens32, x, piece.token + at, bar);
                at += 32;
            }
            if (piece.width & 16) loadBox(to + WEIGHTS_BYTES + at * STEP_BYTES, &p.tokens16, x, piece.token + at, bar);
        }

        __device__ __forceinline__ void run() {
            // Weights do not depend on the launch before: fill the ring with them while it ends.
            bool more = find();
            int ahead = 0;
            if (more) {
                ahead = min(p.stages, piece.end - piece.begin);
#pragma unroll 1
                for (int i = 0; i < ahead; ++i) {
                    expect();
                    loadWeights(piece.begin + i);
                    advance();
                }
            }
            waitForPredecessor();
            restart();
            while (more) {
                tell();
                // The number of the tile after this one comes while this one is fetched.
                const bool whole = piece.begin == 0 && piece.end == p.steps && piece.tile == next;
                int after = next;
                if (whole) after = work.whole + static_cast<int>(gridDim.x) - static_cast<int>(blockIdx.x) + static_cast<int>(atomicAdd(taken, 1u));
                int step = piece.begin;
#pragma unroll 1
                for (; ahead > 0; --ahead, ++step) {
                    loadTokens(step);
                    advance();
                }
#pragma unroll 1
                for (; step < piece.end; ++step) {
                    barrierWait(bar + 8 * MOST_STAGES, parity ^ 1);
                    expect();
                    loadWeights(step);
                    loadTokens(step);
                    advance();
                }
                next = after;
                more = find();
            }
            piece.tile = -1;
            tell();
            // The last block that is done leaves zeros.
            if (atomicAdd(taken + 1, 1u) == gridDim.x - 1) {
                taken[0] = 0;
                taken[1] = 0;
            }
        }
    };

    // Consumer is what a warpgroup keeps from one piece to the next.
    struct Consumer {
        const GroupedParams &p;
        const Cut &cut;
        uint32_t shared;
        int consumer, thread;
        int lead;      // steps until the other may start
        int index = 0; // in the ring
        uint32_t parity = 0;
        int at = 0; // in the line
        uint32_t lap = 0;
        int box = 0;

        __device__ __forceinline__ void advance() {
            if (++index == p.stages) {
                index = 0;
                parity ^= 1;
            }
        }
        __device__ __forceinline__ void skip(int steps) {
            const unsigned to = index + steps;
            parity ^= to / static_cast<unsigned>(p.stages) & 1;
            index = to % static_cast<unsigned>(p.stages);
        }
        __device__ __forceinline__ void release(int stage) const {
            if (thread == 0) barrierArrive(full(shared, MOST_STAGES + stage));
        }
        __device__ __forceinline__ void yield() const { groupArrive(TURN_BARRIER + (consumer ^ 1), CONSUMERS * GROUP); }
        __device__ __forceinline__ void await() const { groupSync(TURN_BARRIER + consumer, CONSUMERS * GROUP); }
        __device__ __forceinline__ void stepped() {
            if (!TURNS && --lead == 0) groupArrive(LEAD_BARRIER, CONSUMERS * GROUP);
        }

        // hear is the next piece of the line.
        __device__ __forceinline__ Piece hear() {
            barrierWait(told(shared, at), lap);
            const uint32_t entry = shared + LINE_AT + at * static_cast<int>(sizeof(Piece));
            int v[8];
#pragma unroll
            for (int i = 0; i < 2; ++i)
                asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(v[4 * i]), "=r"(v[4 * i + 1]), "=r"(v[4 * i + 2]), "=r"(v[4 * i + 3])
                             : "r"(entry + 16 * i)
                             : "memory");
            __syncwarp();
            if (thread % 32 == 0) barrierArrive(told(shared, LINE + at));
            if (++at == LINE) {
                at = 0;
                lap ^= 1;
            }
            return {v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]};
        }

        __device__ __forceinline__ float4 *partial(int block) const {
            return reinterpret_cast<float4 *>(p.partial) + (block * SHARES + (TURNS ? 0 : consumer)) * (MMAS * MOST / 8) * GROUP + thread;
        }
        __device__ __forceinline__ uint32_t *ready(int block) const { return p.ready + block * SHARES + (TURNS ? 0 : consumer); }

        // multiply computes a piece of WIDTH tokens and stores it, or what it holds of one that is cut.
        template <int WIDTH>
        __device__ __forceinline__ void multiply(const Piece &piece) {
            Acc sum[MMAS][WIDTH / 2];
#pragma unroll
            for (int i = 0; i < MMAS * WIDTH / 2; ++i) sum[i / (WIDTH / 2)][i % (WIDTH / 2)] = 0;
            int last = 0;
            const int yields = max(piece.begin, piece.end - p.lead);
#pragma unroll 1
            for (int step = piece.begin; step < piece.end; ++step) {
                barrierWait(full(shared, index), parity);
                if (TURNS && step == yields) yield();
                const uint32_t at = shared + RING_AT + index * STAGE_BYTES;
                const uint64_t a = wgmmaDescriptor(at + (TURNS ? 0 : consumer * (CONSUMER_ROWS * STEP_BYTES)));
                const uint64_t b = wgmmaDescriptor(at + WEIGHTS_BYTES);
                wgmmaFence();
#pragma unroll
                for (int k = 0; k < STEP_BYTES / 32; ++k)
#pragma unroll
                    for (int mma = 0; mma < MMAS; ++mma)
                        Wgmma<T, WIDTH>::add(sum[mma], a + 2 * k + mma * (64 * STEP_BYTES / 16), b + 2 * k, 1);
                wgmmaCommit();
                stepped();
                wgmmaWait<1>();
                if (step > piece.begin) release(last);
                last = index;
                advance();
            }
            wgmmaWait<0>();
            release(last);

            if (piece.end < p.steps) {
                putPartial<MMAS * WIDTH / 8>(partial(blockIdx.x), &sum[0][0]);
                GA_HAND_OVER(GROUP_BARRIER + consumer, ready(blockIdx.x));
                return;
            }
            if (piece.begin > 0) {
                const int first = piece.tile * p.steps;
                int other = blockIdx.x;
                do {
                    --other;
                    if (thread == 0) awaitHandOver(ready(other));
                    groupSync(GROUP_BARRIER + consumer, GROUP);
                    addPartial<MMAS * WIDTH / 8>(partial(other), &sum[0][0]);
                } while (cut.runBegin(other, gridDim.x) > first);
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
            const uint32_t boxes = shared + consumer * Held::BOXES_BYTES;
#pragma unroll
            for (int mma = 0; mma < MMAS; ++mma) {
                const int column = piece.weights + (TURNS ? 0 : consumer * CONSUMER_ROWS) + mma * 64;
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
                    if (part + warp * BOX_ROWS < WIDTH && row < piece.last) {
                        const uint32_t from = to + warp * BOX_BYTES;
                        if (!p.aligned)
                            Held::copyBox(p, from, row, piece.last, column, p.rows);
                        else if (row + BOX_ROWS > piece.last)
                            storeRows(from, row, piece.last, column);
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
        __device__ __forceinline__ void dispatch(const Piece &piece) {
            if constexpr (WIDTH > 16) {
                if (piece.width < WIDTH) {
                    dispatch<WIDTH - 16>(piece);
                    return;
                }
            }
            multiply<WIDTH>(piece);
        }

        // pass frees the stages of a piece whose rows of weights are beyond the group's.
        __device__ __forceinline__ void pass(const Piece &piece) {
#pragma unroll 1
            for (int step = piece.begin; step < piece.end; ++step) {
                // Without wgmma nothing holds the warps together: one warp alone goes through the ring.
                if (thread < 32) {
                    barrierWait(full(shared, index), parity);
                    release(index);
                }
                stepped();
                advance();
            }
            groupSync(GROUP_BARRIER + consumer, GROUP);
        }

        __device__ __forceinline__ void run() {
            // The first consumer lets the second start after `lead` steps; each then writes its C while the other has
            // the tensor cores for itself.
            if (!TURNS && p.lead > 0 && consumer == 1) groupSync(LEAD_BARRIER, CONSUMERS * GROUP);
            // One that takes turns looks at the ring only when the other says so: the phases of a
            // ring that is laps behind would look like those that it waits for.
            int turn = 0; // whose the piece after this one is
            bool fresh = true;
            waitForPredecessor();
            for (Piece piece = hear(); piece.tile >= 0; piece = hear()) {
                if constexpr (TURNS) {
                    turn ^= 1;
                    if (turn == consumer) { // the other's
                        skip(piece.end - piece.begin);
                        fresh = false;
                        continue;
                    }
                    if (!fresh) await();
                    fresh = false;
                }
                if (!TURNS && piece.weights + consumer * CONSUMER_ROWS >= p.rows)
                    pass(piece);
                else
                    dispatch<MOST>(piece);
            }
            if (!TURNS && lead > 0) groupArrive(LEAD_BARRIER, CONSUMERS * GROUP);
            if (TURNS && turn == consumer && !fresh) await(); // the last one yielded, too
            waitStoresRead<0>();
        }
    };

    static __device__ __forceinline__ void run(const GroupedParams &p) {
        extern __shared__ __align__(1024) char raw[];
        const uint32_t shared = sharedAddress(raw);
        const Table table(raw + RING_AT + p.stages * STAGE_BYTES, p.groups);
        if (threadIdx.x == GROUP) {
            prefetchMap(&p.a);
            prefetchMap(&p.b);
            prefetchMap(&p.tokens32);
            prefetchMap(&p.tokens16);
            if (p.aligned) prefetchMap(&p.c);
            for (int i = 0; i < p.stages; ++i) {
                barrierInit(full(shared, i), 1);
                barrierInit(full(shared, MOST_STAGES + i), SHARES);
            }
            for (int i = 0; i < LINE; ++i) {
                barrierInit(told(shared, i), 1);
                barrierInit(told(shared, LINE + i), CONSUMERS * GROUP / 32);
            }
            barrierInitFence();
        }
        if (p.late) waitForPredecessor();
        fill(p, table);
        __syncthreads();
        dependentsMayStart();

        const Cut pieces = cut(p, table.tiles[p.groups]);
        if (threadIdx.x < GROUP) {
            registersDown<MANY ? 24 : 40>();
            if (threadIdx.x == 0) Producer(p, table, shared, pieces).run();
        } else {
            registersUp<MANY ? 240 : 232>();
            const int consumer = static_cast<int>(threadIdx.x) / GROUP - 1;
            Consumer{p, pieces, shared, consumer, static_cast<int>(threadIdx.x) % GROUP, consumer == 0 ? p.lead : 0}.run();
        }
    }
};

} // namespace

#define GA_HOPPER_GROUPED(NAME, SUFFIX, T, OUT, MOST, TURNS)                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) ga_hopper_grouped_##NAME##_##MOST##SUFFIX( \
        const __grid_constant__ GroupedParams p) {                                                      \
        Grouped<Operand::T, OUT, MOST, TURNS>::run(p);                                                  \
    }
#define GA_HOPPER_GROUPED_ALL(NAME, T, OUT)                   \
    GA_HOPPER_GROUPED(NAME, _turns, T, OUT, 16, true)         \
    GA_HOPPER_GROUPED(NAME, _turns, T, OUT, 32, true)         \
    GA_HOPPER_GROUPED(NAME, _turns, T, OUT, 64, true)         \
    GA_HOPPER_GROUPED(NAME, _turns, T, OUT, 128, true)        \
    GA_HOPPER_GROUPED(NAME, _turns, T, OUT, 192, true)        \
    GA_HOPPER_GROUPED(NAME, , T, OUT, 128, false)             \
    GA_HOPPER_GROUPED(NAME, , T, OUT, 192, false)

GA_HOPPER_GROUPED_ALL(bf16, BF16, BfloatOut)
GA_HOPPER_GROUPED_ALL(fp16, FP16, HalfOut)
GA_HOPPER_GROUPED_ALL(fp8, E4M3, BfloatOut)
