// C = A·Wᵀ of a few rows of 16-bit activations and weights of 4 or 8 bits, compute capability 9.0,
// computed as its transpose by mma.sync. With so few tokens nothing counts but how fast weights
// come in and become operands, so weights go from memory to registers without a stop, and warps
// meet only once.
//
// A block has a range of K and a range of rows of weights, in groups of 16. A warp has
// NARROW_STEPS steps of that K, its window, and every p.sets-th group.
// The tokens of the block's K lie in shared memory throughout. Sums of a group go to shared memory,
// where those of all windows are added in their order; the blocks of a cluster share rows and cut
// K, and add their sums through distributed shared memory: the same bits every time.
//
// Windows count as slots from the first step on. The last one that is not empty is moved back
// to end with the steps; slots that another window has too, or that lie behind all steps, have
// zeros for tokens.
//
// Tokens: the slots of one token after the other, 256 bytes each, in chunks of 16 swizzled as in
// quantised_mma.cuh.
//
// Overlapped launches: weights are asked for before the predecessor has ended, all else after it.
#pragma once

#include "cluster.cuh"
#include "quantised_mma.cuh"

namespace quantised {

struct NarrowParams {
    const uint8_t *tokens; // m rows of k
    const uint8_t *weights;
    void *c;
    int64_t tokenBytes; // from row to row, a multiple of 16
    int64_t ldc;
    int m, n, k;
    int steps;    // of K, at least NARROW_STEPS
    int windows;  // of a block
    int inverse;  // 1024 ÷ windows, rounded up
    int sets;     // of warps, each of which has all windows
    int run, rest; // groups of 16 rows of a block, of which the first rest blocks have one more
    int most;     // groups that a block may have
    int scratch;  // where in shared memory sums begin, behind 16 bytes for a barrier
    int pairs;    // two elements of C may be written at once
    int early;    // of a warp's groups, how many are asked for at once
    uint64_t policy; // by which L2 keeps weights
};

constexpr int NARROW_THREADS = 1024;
constexpr int NARROW_WARPS = NARROW_THREADS / 32;
constexpr int NARROW_STEPS = 4;

__device__ __forceinline__ uint4 loadWeights16(const uint8_t *from, uint64_t policy) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from), "l"(policy));
    return v;
}
__device__ __forceinline__ uint32_t loadWeights4(const uint8_t *from, uint64_t policy) {
    uint32_t v;
    asm volatile("ld.global.nc.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(v) : "l"(from), "l"(policy));
    return v;
}
__device__ __forceinline__ void prefetchSector(const uint8_t *at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

__device__ __forceinline__ float4 loadSums(uint32_t from) {
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from) : "memory");
    return v;
}
__device__ __forceinline__ void storeSums(uint32_t to, float4 v) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}
// sendSums stores in the block of rank `rank` of the cluster, at the same offset as `to`; the bytes
// count at its barrier.
__device__ __forceinline__ void sendSums(uint32_t to, uint32_t bar, uint32_t rank, float4 v) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(atRank(to, rank)),
                 "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(atRank(bar, rank))
                 : "memory");
}

// addedSums is the sum of so many sums.
__device__ __forceinline__ float4 addedSums(uint32_t from, int count, int apart) {
    float4 v = loadSums(from);
#pragma unroll 4
    for (int i = 1; i < count; i++) {
        from += apart;
        const float4 w = loadSums(from);
        v.x += w.x, v.y += w.y, v.z += w.z, v.w += w.w;
    }
    return v;
}

// writeSums writes a warp's sums of 8 tokens, from `token` on, and 16 rows of weights, from `row` on.
template <Operand T, class P>
__device__ __forceinline__ void writeSums(const P &p, float4 v, int token, int row) {
    constexpr bool BF16 = T == Operand::BF16;
    const uint32_t halves[2] = {transposed(packPair<BF16>(v.x, v.y)), transposed(packPair<BF16>(v.z, v.w))};
    token += threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int at = row + threadIdx.x % 4 * 2 + 8 * i;
        uint16_t *to = static_cast<uint16_t *>(p.c) + token * p.ldc + at;
        if (token < p.m && at + 1 < p.n && p.pairs) {
            *reinterpret_cast<uint32_t *>(to) = halves[i];
        } else if (token < p.m && at < p.n) {
            to[0] = static_cast<uint16_t>(halves[i]);
            if (at + 1 < p.n) to[1] = static_cast<uint16_t>(halves[i] >> 16);
        }
    }
}

template <Operand T, int BITS, int GROUP, bool ZEROS, int TOKENS>
struct Narrow {
    using Weights = Record<T, BITS, GROUP, ZEROS>;
    using Product = MmaProduct<T, BITS, GROUP, ZEROS, TOKENS>;
    static constexpr int TILES = TOKENS / 8;
    static constexpr int SUMS = 512; // bytes of a warp's sums of 16 rows and 8 tokens
    static constexpr int PER_STEP = BLOCK_K / GROUP; // groups of K
    // How many steps' weights a warp has on the way: as many as 64 registers leave room for.
    static constexpr int RING = BITS == 8 || (ZEROS && GROUP == 32) || (TOKENS > 8 && (ZEROS || GROUP < 128)) ? 1 : 2;

    // Unit is a warp's weights of one step.
    struct Unit {
        uint32_t words[8 * Weights::WORDS], scales[PER_STEP], zeros[ZEROS ? PER_STEP : 1];
    };

    // Rows is where the weights of a lane lie, in the first step of its window.
    struct Rows {
        const uint8_t *codes, *scales;
    };

    const NarrowParams &p;
    uint32_t tokens;
    int lane, warp, part, set, window, begin;

    __device__ Narrow(const NarrowParams &params) : p(params) {
        extern __shared__ __align__(128) uint8_t shared[];
        tokens = sharedAddress(shared);
        lane = threadIdx.x % 32;
        warp = threadIdx.x / 32;
        part = blockIdx.y;
        set = warp * p.inverse >> 10;
        window = warp - set * p.windows;
        begin = firstOf(window);
    }

    // firstOf is the first step of a window.
    __device__ __forceinline__ int firstOf(int window) const {
        return min((part * p.windows + window) * NARROW_STEPS, p.steps - NARROW_STEPS);
    }

    // rows finds a group of 16 rows: a quarter of a part of a record.
    __device__ __forceinline__ Rows rows(int group) const {
        const uint8_t *at = record<Weights::BYTES>(p, group / 8, begin) + group / 4 % 2 * Weights::PART;
        return {at + group % 4 * 512 + lane * 16, at + Weights::CODES + group % 4 * 32 + lane / 4 * 4};
    }

    template <int STEP>
    __device__ __forceinline__ void load(Unit &u, const Rows &from) const {
#pragma unroll
        for (int i = 0; i < 2 * Weights::WORDS; i++) loadCodes<STEP>(u, from, i);
        loadScales<STEP>(u, from);
    }
    // loadCodes loads four words.
    template <int STEP>
    __device__ __forceinline__ void loadCodes(Unit &u, const Rows &from, int i) const {
        const uint4 v = loadWeights16(from.codes + STEP * Weights::BYTES + i * 2048, p.policy);
        u.words[4 * i] = v.x, u.words[4 * i + 1] = v.y, u.words[4 * i + 2] = v.z, u.words[4 * i + 3] = v.w;
    }
    template <int STEP>
    __device__ __forceinline__ void loadScales(Unit &u, const Rows &from) const {
#pragma unroll
        for (int i = 0; i < PER_STEP; i++) {
            const uint8_t *at = from.scales + STEP * Weights::BYTES + i * SCALE_BYTES;
            u.scales[i] = loadWeights4(at, p.policy);
            if constexpr (ZEROS) u.zeros[i] = loadWeights4(at + Weights::SCALES, p.policy);
        }
    }

    // prefetch asks for a group's window, from a step on, so that it is in L2 when it is loaded. What is
    // asked for is sectors of 32 bytes, not lines.
    __device__ __forceinline__ void prefetch(int group, int from) const {
        const uint8_t *at = record<Weights::BYTES>(p, group / 8, begin) + group / 4 % 2 * Weights::PART + group % 4 * 512 + lane * 32;
#pragma unroll
        for (int step = 0; step < NARROW_STEPS; step++) {
            // Lanes have half of the first 512 bytes each, and half of those 2048 bytes on.
#pragma unroll
            for (int i = 0; i < Weights::WORDS && step >= from; i++) prefetchSector(at + step * Weights::BYTES + i * 4096 + lane / 16 * (2048 - 512));
        }
        at = record<Weights::BYTES>(p, group / 8, begin + lane / 8) + group / 4 % 2 * Weights::PART + Weights::CODES + group % 4 * 32;
        if (lane % 8 < PER_STEP * (ZEROS ? 2 : 1)) prefetchSector(at + lane % 8 * SCALE_BYTES);
    }

    __device__ void run() {
        const int block = blockIdx.x;
        const int first = p.run * block + min(block, p.rest), last = first + p.run + (block < p.rest);
        // Warps beyond the sets have nothing to do.
        int group = set < p.sets ? first + set : last;

        Unit ring[RING];
        Rows at = rows(min(group, last - 1));
        if (group < last) {
            load<0>(ring[0], at);
            if constexpr (RING > 1) load<1>(ring[1], at);
            if constexpr (RING > 2) load<2>(ring[2], at), load<3>(ring[3], at);
            for (int g = group; g < min(last, group + p.early * p.sets); g += p.sets) prefetch(g, g == group ? RING : 0);
        }
        dependentsMayStart();
        waitForPredecessor();
        fetchTokens();
        waitCopies<0>();
        __syncthreads();

        // Where a lane reads tokens: chunks differ in their upper bits, which the swizzle changes, and
        // so do the addresses by more than a constant.
        constexpr int SWIZZLES = TOKENS == 8 ? 2 : 4;
        uint32_t from[SWIZZLES];
#pragma unroll
        for (int i = 0; i < SWIZZLES; i++) {
            // Rows that are not there are the first one: what they make is not written.
            int row = TOKENS == 8 ? lane % 8 : lane / 16 * 8 + lane % 8;
            if (row >= p.m) row = 0;
            const int chunk = TOKENS == 8 ? 4 * i + lane / 8 : 2 * i + lane / 8 % 2;
            from[i] = tokens + row * rowBytes() + window * (NARROW_STEPS * 256) + (chunk ^ (row & 7)) * 16;
        }
        uint32_t to = tokens + p.scratch + (window * p.most + (group - first)) * (TILES * SUMS) + lane * 16;
#pragma unroll 1
        for (; group < last; group += p.sets) {
            const bool more = group + p.sets < last;
            const Rows next = rows(more ? group + p.sets : group);
            float sums[TILES][4];
#pragma unroll
            for (int i = 0; i < TILES * 4; i++) sums[i / 4][i % 4] = 0;
            step<0>(sums, ring, from, at, next, more);
            step<1>(sums, ring, from, at, next, more);
            step<2>(sums, ring, from, at, next, more);
            step<3>(sums, ring, from, at, next, more);
#pragma unroll
            for (int j = 0; j < TILES; j++) storeSums(to + j * SUMS, make_float4(sums[j][0], sums[j][1], sums[j][2], sums[j][3]));
            to += p.sets * (TILES * SUMS);
            at = next;
        }
        finish(first, last - first);
    }

    // step multiplies one step of the window, and asks for the weights that take its place as soon as it has
    // made operands of them.
    template <int STEP, int SWIZZLES>
    __device__ __forceinline__ void step(float (&sums)[TILES][4], Unit (&ring)[RING], const uint32_t (&from)[SWIZZLES],
                                                const Rows &at, const Rows &next, bool more) const {
        constexpr bool SAME = STEP + RING < NARROW_STEPS;
        constexpr int THEN = SAME ? STEP + RING : STEP + RING - NARROW_STEPS;
        const Rows &then = SAME ? at : next;
        Unit &u = ring[STEP % RING];
        Group g;
        uint32_t b[4];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            uint32_t a[4];
            if (k * 16 % GROUP == 0) g = Weights::group(u.scales[k * 16 / GROUP], u.zeros[ZEROS ? k * 16 / GROUP : 0]);
            Weights::widen(u.words + k * Weights::WORDS, g, a);
            if constexpr (TOKENS == 8) {
                if (k % 2 == 0) loadTokens4(b, from[k / 2 % 2] + k / 4 * 128 + STEP * 256);
                Product::add(sums[0], a, b[k % 2 * 2], b[k % 2 * 2 + 1]);
            } else {
                loadTokens4(b, from[k % 4] + k / 4 * 128 + STEP * 256);
                Product::add(sums[0], a, b[0], b[1]);
                Product::add(sums[1], a, b[2], b[3]);
            }
            if (BITS == 4 && k % 4 == 3 && (SAME || more)) loadCodes<THEN>(u, then, k / 4);
            if (BITS == 4 && k == (GROUP == BLOCK_K ? 3 : 7) && (SAME || more)) loadScales<THEN>(u, then);
        }
        if (BITS == 8 && (SAME || more)) load<THEN>(u, then); // registers are few
    }

    // fetchTokens copies the tokens of the block's windows, 16 threads those of a slot.
    __device__ __forceinline__ void fetchTokens() const {
        const int column = threadIdx.x % 16, slots = p.windows * NARROW_STEPS;
        for (int slot = threadIdx.x / 16; slot < slots; slot += NARROW_THREADS / 16) {
            const int own = (part * p.windows + slot / NARROW_STEPS) * NARROW_STEPS;
            const int step = min(own, p.steps - NARROW_STEPS) + slot % NARROW_STEPS;
            const int bytes = step >= own ? max(0, min(16, 2 * p.k - column * 16 - step * (2 * BLOCK_K))) : 0;
            // What is not there must not be pointed to either.
            const uint8_t *source = bytes > 0 ? p.tokens + column * 16 + step * (2 * BLOCK_K) : p.tokens;
            const uint32_t to = tokens + slot * 256;
            for (int row = 0; row < p.m; row++) {
                copyPart(to + row * rowBytes() + (column ^ (row & 7)) * 16, source, bytes);
                if (bytes > 0) source += p.tokenBytes;
            }
        }
        commitCopies();
    }

    // rowBytes is how far a token's slots lie from the next one's.
    __device__ __forceinline__ int rowBytes() const { return p.windows * (NARROW_STEPS * 256); }

    // finish adds the sums of all windows, of all parts of K, and writes C.
    __device__ __forceinline__ void finish(int first, int groups) const {
        const int all = groups * TILES;
        const uint32_t mine = tokens + p.scratch + lane * 16, gathered = tokens + lane * 16;
        if (gridDim.y == 1) {
            __syncthreads();
            for (int i = warp; i < all; i += NARROW_WARPS) put(addedSums(mine + i * SUMS, p.windows, p.most * (TILES * SUMS)), first, i);
            return;
        }
        // Each of the blocks finishes as many sums, which the others put where its tokens were.
        const int parts = gridDim.y;
        const uint32_t bar = tokens + p.scratch - 16;
        clusterArrive(bar, (all - part + parts - 1) / parts * parts * SUMS);
        __syncthreads();
        clusterWait();
        for (int i = warp; i < all; i += NARROW_WARPS) {
            const int owner = i % parts;
            sendSums(gathered + (i - owner + part) * SUMS, bar, owner, addedSums(mine + i * SUMS, p.windows, p.most * (TILES * SUMS)));
        }
        received(bar);
        for (int i = warp * parts + part; i < all; i += NARROW_WARPS * parts) put(addedSums(gathered + (i - part) * SUMS, parts, SUMS), first, i);
    }

    // put writes the index-th sums of a block.
    __device__ __forceinline__ void put(float4 v, int first, int index) const {
        writeSums<T>(p, v, index % TILES * 8, (first + index / TILES) * 16);
    }
};

} // namespace quantised

// GA_QUANTISED_NARROW makes the kernels for up to TOKENS tokens, without and with zero points:
// ga_w4a16_narrow_bf16_g128_8 and _g128z_8.
#define GA_QUANTISED_NARROW_KERNEL(DTYPE, T, BITS, GROUP, SUFFIX, ZEROS, TOKENS)                                           \
    extern "C" __global__ void __launch_bounds__(quantised::NARROW_THREADS, 1)                                             \
        ga_w##BITS##a16_narrow_##DTYPE##_g##GROUP##SUFFIX##_##TOKENS(const __grid_constant__ quantised::NarrowParams p) {  \
        quantised::Narrow<Operand::T, BITS, GROUP, ZEROS, TOKENS>(p).run();                                                \
    }
#define GA_QUANTISED_NARROW(BITS, DTYPE, T, GROUP, TOKENS)            \
    GA_QUANTISED_NARROW_KERNEL(DTYPE, T, BITS, GROUP, , false, TOKENS) \
    GA_QUANTISED_NARROW_KERNEL(DTYPE, T, BITS, GROUP, z, true, TOKENS)
