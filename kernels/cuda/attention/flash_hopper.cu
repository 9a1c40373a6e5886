// arch: 90a
//
// flash on compute capability 9.0: attention of many rows with an online softmax (Dao et
// al. 2022) in the form of FlashAttention-3 (Shah et al. 2024): TMA, wgmma, and the
// softmax of one warpgroup under the products of the other.
//
// Tile      64 rows of queries a consumer, of one head, against 128 keys at a time, the
//           latest first. Heads of 128: two consumers, whose scores and output with 128 keys
//           are 8.4 MFLOP on 64 KB fetched, 128 FLOP a byte. Heads of 64 need as many
//           exponents for half of the products, and fewer registers: three consumers.
// Threads   Warpgroup 0, with few registers: one thread feeds the ring by TMA, one warp
//           masks values. The others are consumers: scores, weights, output in registers.
// Shared    Queries: a box of 128 bytes × all rows for each 64 elements of a head. The
//           ring: slots for 128 keys or as many values, boxes of 128 bytes × 128. Output: boxes
//           of 16 rows for each warp. All with 128-byte swizzle. Then the barriers.
// Ring      Slots follow in the order in which consumers want them: keys of tile 0, keys
//           of 1, values of 0, keys of 2, values of 1, and so on. full[s] completes with the
//           slot's bytes, empty[s] when all consumers are done with it.
// Overlap   A consumer asks for the scores of the next tile, then for the output of this
//           one, and while the latter is computed makes weights of the former. Consumers
//           take turns in asking.
// Rounding  Weights are at most 2^8 and are rounded to the operands' type for the second
//           product; their sum is that of the weights before rounding, in fp32.
// Grid      Persistent. Tiles are dealt out the heaviest first, there and back again, so
//           that blocks end together; neighbours have heads that share keys in L2.
// Masking   A weight of zero does not help against NaN: values beyond what any row of the
//           launch sees, which may never have been written, are made zero in shared memory.
//
// Of an H200's tensor cores it keeps 71 % busy with heads of 128. Clusters of two that
// fetch together gain nothing: L2 keeps up with one TMA thread that does little else.

#include "attention.cuh"
#include "flash_hopper_tiles.cuh"
#include "wgmma_values.cuh"

struct FlashParams {
    TensorMap q, keys, values, out; // rows and heads side by side; [KV·capacity, D]
    const int *position;
    int rows, heads, group; // query heads, and how many have one of keys
    int capacity, window, length;
    int rowTiles;
    float scale; // of scores, times log2 e
};

namespace {

constexpr int GROUP = 128;  // threads of a warpgroup
constexpr int BOX = 128;    // bytes of a row of a box: 64 elements
constexpr int SHARED_MAX = 227 * 1024;
constexpr int OUT_ROWS = 16; // of a box of output, one warp's part of a wgmma
constexpr int TURN_BARRIER = 1;
constexpr float RAISE = 8; // log2 of the largest weight

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
};

// fenceRegister keeps the compiler from moving uses of what wgmma writes across a wait.
__device__ __forceinline__ void fenceRegister(float &v) { asm volatile("" : "+f"(v)::"memory"); }

// finish has ptxas put what leads to a value before what follows, by a sleep on a NaN that
// no arithmetic makes. Without it, all of the softmax moves behind the wait for the output,
// which it is there to hide. (A trap in its place makes ptxas forget the registers that
// setmaxnreg has brought, and wgmma serial.)
__device__ __forceinline__ void finish(float value) {
    asm volatile("{\n.reg .pred never;\nsetp.eq.u32 never, %0, 0x7fc12345;\n@never nanosleep.u32 1;\n}" ::"r"(__float_as_int(value)) : "memory");
}

template <Operand T, int D, int CONSUMERS, int BN>
struct Flash {
    static constexpr int BM = 64 * CONSUMERS;
    static constexpr int PRODUCER_REGISTERS = CONSUMERS == 2 ? 40 : 32;
    static constexpr int CONSUMER_REGISTERS = CONSUMERS == 2 ? 232 : 160;
    static constexpr int BOXES = D / 64; // side by side in a head
    static constexpr int Q_BYTES = BM * D * 2, SLOT_BYTES = BN * D * 2;
    static constexpr int FIT = (SHARED_MAX - 1024 - 256 - 2 * Q_BYTES) / SLOT_BYTES;
    static constexpr int STAGES = FIT < 8 ? FIT : 8;
    static constexpr int RING_AT = Q_BYTES, OUT_AT = RING_AT + STAGES * SLOT_BYTES, BARRIERS_AT = OUT_AT + Q_BYTES;
    static_assert(STAGES >= 4, "two tiles of keys and of values");
    static_assert(256 % BN == 0, "the ring of the cache, a multiple of 256, never ends inside of a tile");

    // The shared addresses of slots and barriers.
    struct Shared {
        uint32_t base;
        __device__ __forceinline__ uint32_t slot(int i) const { return base + RING_AT + i * SLOT_BYTES; }
        __device__ __forceinline__ uint32_t full(int i) const { return base + BARRIERS_AT + 8 * i; }
        __device__ __forceinline__ uint32_t empty(int i) const { return base + BARRIERS_AT + 8 * (STAGES + i); }
        __device__ __forceinline__ uint32_t queriesFull() const { return base + BARRIERS_AT + 8 * (2 * STAGES); }
        __device__ __forceinline__ uint32_t queriesEmpty() const { return base + BARRIERS_AT + 8 * (2 * STAGES + 1); }
        __device__ __forceinline__ uint32_t valuesToMask() const { return base + BARRIERS_AT + 8 * (2 * STAGES + 2); }
    };

    // Work deals out the tiles of a block, the same to all of its warps.
    struct Work {
        int round = 0;
        int row, head;         // the first row of the tile, the head of queries
        int firstTile, lastTile; // of keys
        bool maskFirst, maskLast; // their values: they go beyond what any row of the launch sees

        __device__ __forceinline__ bool advance(const FlashParams &p, int first) {
            const int blocks = gridDim.x, block = blockIdx.x;
            const int item = round * blocks + (round & 1 ? blocks - 1 - block : block);
            ++round;
            if (item >= p.rowTiles * p.heads) return false;
            const int tile = static_cast<unsigned>(item) / static_cast<unsigned>(p.heads);
            head = item - tile * p.heads;
            row = (p.rowTiles - 1 - tile) * BM;
            firstTile = seenFrom(first + row, p.window).begin / BN;
            lastTile = (seenFrom(first + min(row + BM, p.rows) - 1, p.window).end - 1) / BN;
            const int begin = seenFrom(first, p.window).begin, end = first + p.rows;
            maskFirst = firstTile * BN < begin || (firstTile + 1) * BN > end;
            maskLast = lastTile * BN < begin || (lastTile + 1) * BN > end;
            return true;
        }
    };

    // Fetch is where the producer stands in the ring. One thread has to keep up with the
    // tensor cores: what does not change is worked out once.
    struct Fetch {
        const FlashParams &p;
        const Shared shared;
        uint32_t to, bar, parity = 1; // the slot, its full barrier, the phase of the empty one to wait for

        __device__ __forceinline__ Fetch(const FlashParams &p, Shared shared) : p(p), shared(shared), to(shared.slot(0)), bar(shared.full(0)) {}

        __device__ __forceinline__ void advance() {
            to += SLOT_BYTES;
            bar += 8;
            if (to == shared.slot(STAGES)) {
                to = shared.slot(0);
                bar = shared.full(0);
                parity ^= 1;
            }
        }
        // next puts the tile that begins at a row of the cache into the next slot; its bytes
        // count at the barrier `at`.
        __device__ __forceinline__ void next(const TensorMap *map, int row, uint32_t at) {
            barrierWait(bar + 8 * STAGES, parity);
            barrierExpect(at, SLOT_BYTES);
#pragma unroll
            for (int box = 0; box < BOXES; ++box) loadBox(to + box * (BN * BOX), map, box * 64, row, at);
        }
        __device__ __forceinline__ void keys(int row) {
            next(&p.keys, row, bar);
            advance();
        }
        // Values that the masking warp looks at before consumers do are waited for: there is one
        // such warp.
        __device__ __forceinline__ void values(int row, bool masked) {
            next(&p.values, row, masked ? shared.valuesToMask() : bar);
            if (masked) barrierWait(bar, parity ^ 1);
            advance();
        }
    };

    static __device__ __forceinline__ void produce(const FlashParams &p, Shared shared) {
        waitForPredecessor();
        const int first = firstPosition(p.position, p.rows, p.length);
        Fetch fetch(p, shared);
        uint32_t queriesParity = 1;
        Work work;
        while (work.advance(p, first)) {
            // Keys are a tile ahead of values.
            const int plane = work.head / p.group * p.capacity;
            int keys = plane + work.lastTile * BN % p.capacity, values = keys;
            auto down = [&](int &row) {
                row -= BN;
                if (row < plane) row += p.capacity;
            };
            fetch.keys(keys);
            barrierWait(shared.queriesEmpty(), queriesParity);
            queriesParity ^= 1;
            barrierExpect(shared.queriesFull(), Q_BYTES);
#pragma unroll
            for (int box = 0; box < BOXES; ++box)
                loadBox(shared.base + box * (BM * BOX), &p.q, work.head * D + box * 64, work.row, shared.queriesFull());
            bool masked = work.maskLast;
#pragma unroll 1
            for (int tile = work.lastTile - 1; tile >= work.firstTile; --tile) {
                down(keys);
                fetch.keys(keys);
                fetch.values(values, masked);
                down(values);
                masked = false;
            }
            fetch.values(values, work.maskFirst);
        }
    }

    // maskValues is the work of the masking warp, which finds the values as the producer does.
    static __device__ __forceinline__ void maskValues(const FlashParams &p, Shared shared) {
        waitForPredecessor();
        const int first = firstPosition(p.position, p.rows, p.length);
        const int begin = seenFrom(first, p.window).begin, end = first + p.rows;
        uint32_t parity = 0;
        int slot = 0; // that of the tile's first keys
        Work work;
        while (work.advance(p, first)) {
            const int tiles = work.lastTile - work.firstTile + 1;
#pragma unroll 1
            for (int i = 0; i < 2; ++i) {
                if (i == 0 ? !work.maskLast || tiles == 1 : !work.maskFirst) continue;
                const int at = (slot + (i == 0 ? 2 : 2 * tiles - 1)) % STAGES, tile = i == 0 ? work.lastTile : work.firstTile;
                barrierWait(shared.valuesToMask(), parity);
                parity ^= 1;
                clear(shared.slot(at), begin - tile * BN, end - tile * BN);
                if (electOne()) barrierArrive(shared.full(at));
                __syncwarp();
            }
            slot = (slot + 2 * tiles) % STAGES;
        }
    }

    // clear makes values before row low and from row high on zero; a warp calls it.
    static __device__ __forceinline__ void clear(uint32_t slot, int low, int high) {
#pragma unroll 1
        for (int i = threadIdx.x % 32; i < BN * BOXES * (BOX / 16); i += 32) {
            const int row = i / (BOX / 16) % BN;
            if (row < low || row >= high) asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(slot + i * 16), "r"(0) : "memory");
        }
        sharedToAsync();
        __syncwarp();
    }

    // Rows holds what a consumer keeps of its two rows a thread, lane/4 and lane/4 + 8 of
    // its warp's 16.
    struct Rows {
        float most[2] = {lowest(), lowest()}; // of the scores so far
        float total[2] = {0, 0};          // of this thread's weights
    };

    // weigh makes weights of scores, 2^(scale·(score - most)). `most` is the most of the
    // row's scores when it was last raised: as long as no weight exceeds 2^8, there is no need
    // to, and no change to the output so far. weigh returns whether it has raised it in this
    // warp, and in fade what output of before is to be multiplied with.
    static __device__ __forceinline__ bool weigh(float (&s)[BN / 2], Rows &rows, float scale, float (&fade)[2]) {
        float most[2] = {lowest(), lowest()};
#pragma unroll
        for (int i = 0; i < BN / 2; i += 2) most[i / 2 % 2] = fmaxf(most[i / 2 % 2], fmaxf(s[i], s[i + 1]));
        const bool raise = __any_sync(0xffffffff, (most[0] - rows.most[0]) * scale > RAISE || (most[1] - rows.most[1]) * scale > RAISE);
        fade[0] = fade[1] = 1;
        if (raise) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                float all = fmaxf(rows.most[r], most[r]);
                all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, 1));
                all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, 2));
                // A row may have seen nothing so far: infinity less infinity is no number.
                fade[r] = rows.most[r] == lowest() ? 0 : exp2Approximate((rows.most[r] - all) * scale);
                rows.most[r] = all;
                rows.total[r] *= fade[r];
            }
        }
        const float base[2] = {rows.most[0] == lowest() ? 0 : rows.most[0] * scale, rows.most[1] == lowest() ? 0 : rows.most[1] * scale};
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) {
            s[i] = exp2Approximate(s[i] * scale - base[i / 2 % 2]);
            rows.total[i / 2 % 2] += s[i];
        }
        return raise;
    }

    // mask hides the keys of a tile that a row does not see; position is that of the
    // thread's first row less that of the tile's first key.
    static __device__ __forceinline__ void mask(float (&s)[BN / 2], int position, int window) {
        const int column = threadIdx.x % 4 * 2;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int high = position + 8 * r - column; // columns up to it, the last seen
            const int low = window > 0 ? high - window : -BN;
#pragma unroll
            for (int i = 0; i < BN / 8; ++i)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    const int at = 8 * i + e;
                    if (at > high || at <= low) s[4 * i + 2 * r + e] = lowest();
                }
        }
    }

    static __device__ __forceinline__ void askScores(float (&s)[BN / 2], uint32_t queries, uint32_t keys) {
#pragma unroll
        for (int k = 0; k < D / 16; ++k)
            Wgmma<T, BN>::add(s, along(wgmmaDescriptor(queries), k / 4 * (BM * BOX / 16) + k % 4 * 2),
                              along(wgmmaDescriptor(keys), k / 4 * (BN * BOX / 16) + k % 4 * 2), k > 0);
        wgmmaCommit();
    }

    // along moves a descriptor on without a carry to its upper half, which stays a constant.
    static __device__ __forceinline__ uint64_t along(uint64_t descriptor, int by) {
        return descriptor & 0xffffffff00000000ull | static_cast<uint32_t>(static_cast<uint32_t>(descriptor) + by);
    }

    static __device__ __forceinline__ void askOutput(float (&o)[D / 2], const uint32_t (&weights)[BN / 4], uint32_t values) {
#pragma unroll
        for (int k = 0; k < BN / 16; ++k)
            WgmmaValues<T, D>::add(o, weights[4 * k], weights[4 * k + 1], weights[4 * k + 2], weights[4 * k + 3],
                                   along(wgmmaValuesDescriptor(values, BN * BOX), k * (16 * BOX / 16)));
        wgmmaCommit();
    }

    static __device__ __forceinline__ void round(uint32_t (&weights)[BN / 4], const float (&s)[BN / 2]) {
#pragma unroll
        for (int i = 0; i < BN / 4; ++i) weights[i] = packPair<T == Operand::BF16>(s[2 * i], s[2 * i + 1]);
    }

    static __device__ __forceinline__ void consume(const FlashParams &p, Shared shared) {
        const int consumer = threadIdx.x / GROUP - 1, thread = threadIdx.x % GROUP, warp = thread / 32, lane = thread % 32;
        const uint32_t queries = shared.base + consumer * (64 * BOX);
        Stage<STAGES> stage;
        uint32_t queriesParity = 0;

        auto release = [&](int index) {
            if (thread == 0) barrierArrive(shared.empty(index));
        };
        auto myTurn = [&] { groupSync(TURN_BARRIER + consumer, 2 * GROUP); };
        auto nextTurn = [&] { groupArrive(TURN_BARRIER + (consumer + 1) % CONSUMERS, 2 * GROUP); };
        if (consumer == CONSUMERS - 1) nextTurn();

        waitForPredecessor();
        const int first = firstPosition(p.position, p.rows, p.length);
        Work work;
        while (work.advance(p, first)) {
            const int position = first + work.row + consumer * 64; // of this consumer's first row
            // Tiles between these are seen by all of its rows whole.
            const int wholeLast = (position + 1) / BN - 1;
            const int wholeFirst = p.window > 0 ? (max(position + 64 - p.window, 0) + BN - 1) / BN : 0;
            const int own = position + warp * 16 + lane / 4;
            float s[BN / 2], o[D / 2], fade[2];
            uint32_t weights[BN / 4];
            Rows rows;
#pragma unroll
            for (int i = 0; i < D / 2; ++i) o[i] = 0;
#pragma unroll
            for (int i = 0; i < BN / 2; ++i) s[i] = 0;

            barrierWait(shared.queriesFull(), queriesParity);
            queriesParity ^= 1;
            barrierWait(shared.full(stage.index), stage.parity);
            wgmmaFence();
            askScores(s, queries, shared.slot(stage.index));
            wgmmaWait<0>();
#pragma unroll
            for (int i = 0; i < BN / 2; ++i) fenceRegister(s[i]);
            release(stage.index);
            stage.advance();
            mask(s, own - work.lastTile * BN, p.window);
            weigh(s, rows, p.scale, fade);
            round(weights, s);

#pragma unroll 1
            for (int tile = work.lastTile - 1; tile >= work.firstTile; --tile) {
                const int keys = stage.index;
                barrierWait(shared.full(keys), stage.parity);
                stage.advance();
                const int values = stage.index;
                myTurn();
                wgmmaFence();
                askScores(s, queries, shared.slot(keys));
                barrierWait(shared.full(values), stage.parity);
                stage.advance();
                askOutput(o, weights, shared.slot(values));
                nextTurn();
                wgmmaWait<1>();
#pragma unroll
                for (int i = 0; i < BN / 2; ++i) fenceRegister(s[i]);
                release(keys);
                if (tile > wholeLast || tile < wholeFirst) mask(s, own - tile * BN, p.window);
                const bool raised = weigh(s, rows, p.scale, fade);
                finish(rows.total[0] + rows.total[1]);
                wgmmaWait<0>();
#pragma unroll
                for (int i = 0; i < D / 2; ++i) fenceRegister(o[i]);
                release(values);
                round(weights, s);
                if (raised) {
#pragma unroll
                    for (int i = 0; i < D / 2; ++i) o[i] *= fade[i / 2 % 2];
                }
            }
            if (thread == 0) barrierArrive(shared.queriesEmpty());
            barrierWait(shared.full(stage.index), stage.parity);
            wgmmaFence();
            askOutput(o, weights, shared.slot(stage.index));
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                rows.total[r] += __shfl_xor_sync(0xffffffff, rows.total[r], 1);
                rows.total[r] += __shfl_xor_sync(0xffffffff, rows.total[r], 2);
                fade[r] = 1 / rows.total[r];
            }
            wgmmaWait<0>();
#pragma unroll
            for (int i = 0; i < D / 2; ++i) fenceRegister(o[i]);
            release(stage.index);
            stage.advance();
            store(p, shared, o, fade, work.row + consumer * 64 + warp * OUT_ROWS, work.head);
        }
        if (consumer == 0) myTurn(); // which the last one gave away
        waitStoresRead<0>();
    }

    // store writes a warp's 16 rows, each times its factor.
    static __device__ __forceinline__ void store(const FlashParams &p, Shared shared, const float (&o)[D / 2], const float (&factor)[2], int row,
                                                 int head) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - 4;
        const uint32_t to = shared.base + OUT_AT + warp * (OUT_ROWS * D * 2);
        if (row >= p.rows) return;
        if (lane == 0) waitStoresRead<0>();
        __syncwarp();
        // Lane l addresses row l%16 of columns 8·(l/16) and the next 8.
        const uint32_t line = to + lane % 16 * BOX;
#pragma unroll
        for (int j = 0; j < D / 16; ++j) {
            const float *d = &o[8 * j];
            const uint32_t chunk = (j % 4 * 2 + lane / 16) ^ (lane % 8);
            storeMatrices4(line + j / 4 * (OUT_ROWS * BOX) + chunk * 16, packPair<T == Operand::BF16>(d[0] * factor[0], d[1] * factor[0]),
                           packPair<T == Operand::BF16>(d[2] * factor[1], d[3] * factor[1]), packPair<T == Operand::BF16>(d[4] * factor[0], d[5] * factor[0]),
                           packPair<T == Operand::BF16>(d[6] * factor[1], d[7] * factor[1]));
        }
        sharedToAsync();
        __syncwarp();
        if (lane == 0) {
#pragma unroll
            for (int box = 0; box < BOXES; ++box) storeBox(&p.out, to + box * (OUT_ROWS * BOX), head * D + box * 64, row);
            commitStores();
        }
    }

    static __device__ __forceinline__ void run(const FlashParams &p) {
        extern __shared__ char raw[];
        const Shared shared{(sharedAddress(raw) + 1023) & ~1023u};
        if (threadIdx.x == 0) {
            prefetchMap(&p.q);
            prefetchMap(&p.keys);
            prefetchMap(&p.values);
            prefetchMap(&p.out);
            for (int i = 0; i < STAGES; ++i) {
                barrierInit(shared.full(i), 1);
                barrierInit(shared.empty(i), CONSUMERS);
            }
            barrierInit(shared.queriesFull(), 1);
            barrierInit(shared.queriesEmpty(), CONSUMERS);
            barrierInit(shared.valuesToMask(), 1);
            barrierInitFence();
        }
        __syncthreads();
        dependentsMayStart();

        if (threadIdx.x < GROUP) {
            registersDown<PRODUCER_REGISTERS>();
            if (threadIdx.x < 32) {
                if (electOne()) produce(p, shared);
            } else if (threadIdx.x < 64) {
                maskValues(p, shared);
            }
        } else {
            registersUp<CONSUMER_REGISTERS>();
            consume(p, shared);
        }
    }
};

} // namespace

#define GA_FLASH(NAME, T, D, CONSUMERS, BN)                                                                                   \
    extern "C" __global__ void __launch_bounds__(GROUP *(CONSUMERS + 1), 1) ga_flash_hopper_##NAME##_##D##_##CONSUMERS##x##BN( \
        const __grid_constant__ FlashParams p) {                                                                              \
        Flash<Operand::T, D, CONSUMERS, BN>::run(p);                                                                          \
    }

#define GA_FLASH_TYPES(K, D, CONSUMERS, BN) K(fp16, FP16, D, CONSUMERS, BN) K(bf16, BF16, D, CONSUMERS, BN)

GA_FLASH_HOPPER_TILES(GA_FLASH_TYPES, GA_FLASH)
