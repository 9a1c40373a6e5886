// C = A·Wᵀ of a few rows of 16-bit activations and weights of 4 or 8 bits, compute capability 9.0,
// computed as its transpose by mma.sync. With so few tokens nothing counts but how fast weights
// come in and become operands, so weights go from memory to registers without a stop, and warps
// meet only once.
//
// A block has a range of K and a range of rows of weights, in groups of 16. A warp has some steps
// of that K, its window, and every p.sets-th group.
// The tokens of the block's K lie in shared memory throughout. Sums of a group go to shared memory,
// where those of all windows are added in their order; the blocks of a cluster share rows and cut
// K, and add their sums through distributed shared memory: the same bits every time.
//
// Windows count as slots from the first step on. The last one that is not empty is moved back
// to end with the steps; slots that another window has too, or that lie behind all steps, have
// zeros for tokens.
//
// Tokens: the slots of one token after the other, 256 bytes each, in chunks of 16 swizzled as in
// quantised_mma.cuh. They arrive in the order in which warps ask for them: the first quarter of all
// windows, then the second.
//
// Overlapped launches: weights are asked for before the predecessor has ended, all else after it. A
// block of half the warps leaves room for one of the successor, which then has its first weights
// when the predecessor ends.
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
    int steps;    // of K, at least a window
    int windows;  // of a block
    int shift;    // a window has NARROW_STEPS << shift steps
    int inverse;  // 1024 ÷ windows, rounded up
    int sets;     // of warps, each of which has all windows
    int run, rest; // groups of 16 rows of a block, of which the first rest blocks have one more
    int most;     // groups that a block may have
    int scratch;  // where in shared memory sums begin, behind barriers
    int pairs;    // two elements of C may be written at once
    int early;    // of a warp's groups, how many are asked for before the predecessor has ended
    uint64_t policy; // by which L2 keeps weights
};

constexpr int NARROW_THREADS = 1024; // at most
constexpr int NARROW_STEPS = 4;      // of a loop
constexpr int NARROW_BARRIERS = 48;  // bytes: of each quarter of tokens, and one for sums

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

// arriveWhenCopied arrives at a barrier once what this thread has copied is there.
__device__ __forceinline__ void arriveWhenCopied(uint32_t bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

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
    uint32_t tokens, arrived;
    int lane, warp, part, set, window, begin;

    __device__ Narrow(const NarrowParams &params) : p(params) {
        extern __shared__ __align__(128) uint8_t shared[];
        tokens = sharedAddress(shared);
        arrived = tokens + p.scratch - NARROW_BARRIERS;
        lane = threadIdx.x % 32;
        warp = threadIdx.x / 32;
        part = blockIdx.y;
        set = warp * p.inverse >> 10;
        window = warp - set * p.windows;
        begin = firstOf(window);
    }

    // firstOf is the first step of a window.
    __device__ __forceinline__ int firstOf(int window) const {
        return min((part * p.windows + window) * span(), p.steps - span());
    }

    // span is the steps of a window.
    __device__ __forceinline__ int span() const { return NARROW_STEPS << p.shift; }

    // rows finds a group of 16 rows: a quarter of a part of a record.
    __device__ __forceinline__ Rows rows(int group) const {
        const uint8_t *at = record<Weights::BYTES>(p, group / 8, begin) + group / 4 % 2 * Weights::PART;
        return {at + group % 4 * 512 + lane * 16, at + Weights::CODES + group % 4 * 32 + lane / 4 * 4};
    }

    template <int STEP>
    __device__ __forceinline__ void load(Unit &u, const Rows &from) const {
#pragma unroll
        for (int i = 0; i < 2 * Weights::WORDS; i++) {
            const uint4 v = loadWeights16(from.codes + STEP * Weights::BYTES + i * 2048, p.policy);
            u.words[4 * i] = v.x, u.words[4 * i + 1] = v.y, u.words[4 * i + 2] = v.z, u.words[4 * i + 3] = v.w;
        }
#pragma unroll
        for (int i = 0; i < PER_STEP; i++) {
            const uint8_t *at = from.scales + STEP * Weights::BYTES + i * SCALE_BYTES;
            u.scales[i] = loadWeights4(at, p.policy);
            if constexpr (ZEROS) u.zeros[i] = loadWeights4(at + Weights::SCALES, p.policy);
        }
    }

    // prefetch asks for a group's window, from a step on, so that it is in L2 when it is loaded. What is asked
    // for is sectors of 32 bytes, not lines.
    __device__ __forceinline__ void prefetch(int group, int step) const {
        const uint8_t *at = record<Weights::BYTES>(p, group / 8, begin) + group / 4 % 2 * Weights::PART;
        // Lanes have half of the first 512 bytes each, and half of those 2048 bytes on.
        const uint8_t *codes = at + group % 4 * 512 + lane * 32 + lane / 16 * (2048 - 512) + step * Weights::BYTES;
        const uint8_t *scales = at + lane / 8 * Weights::BYTES + Weights::CODES + group % 4 * 32 + lane % 8 * SCALE_BYTES;
#pragma unroll 1
        for (; step < span(); step++) {
#pragma unroll
            for (int i = 0; i < Weights::WORDS; i++) prefetchSector(codes + i * 4096);
            codes += Weights::BYTES;
        }
#pragma unroll 1
        for (int i = 0; i < span(); i += NARROW_STEPS) {
            if (lane % 8 < PER_STEP * (ZEROS ? 2 : 1)) prefetchSector(scales);
            scales += NARROW_STEPS * Weights::BYTES;
        }
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
        }
#pragma unroll 1
        for (int i = 0; i < p.early && group + i * p.sets < last; i++) prefetch(group + i * p.sets, i == 0 ? RING : 0);
        dependentsMayStart();
        if (threadIdx.x == 0) {
            for (int i = 0; i < 4; i++) barrierInit(arrived + 8 * i, blockDim.x);
            barrierInitFence();
        }
        __syncthreads();
        waitForPredecessor();
        fetchTokens();

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
            from[i] = tokens + row * rowBytes() + window * span() * 256 + (chunk ^ (row & 7)) * 16;
        }
        uint32_t to = tokens + p.scratch + (window * p.most + (group - first)) * (TILES * SUMS) + lane * 16;
        bool waits = true; // for tokens
#pragma unroll 1
        for (; group < last; group += p.sets) {
            float sums[TILES][4];
#pragma unroll
            for (int i = 0; i < TILES * 4; i++) sums[i / 4][i % 4] = 0;
#pragma unroll 1
            for (int i = 0; i < span(); i += NARROW_STEPS) {
                // Where the loop's next round finds its weights: further on in the window, or in the next group.
                const int next = i + NARROW_STEPS < span() ? group : group + p.sets;
                step<0>(sums, ring, from, at, next, last, waits, i);
                step<1>(sums, ring, from, at, next, last, waits, i);
                step<2>(sums, ring, from, at, next, last, waits, i);
                step<3>(sums, ring, from, at, next, last, waits, i);
#pragma unroll
                for (int j = 0; j < SWIZZLES; j++) from[j] += NARROW_STEPS * 256;
            }
#pragma unroll
            for (int j = 0; j < SWIZZLES; j++) from[j] -= span() * 256;
            waits = false;
#pragma unroll
            for (int j = 0; j < TILES; j++) storeSums(to + j * SUMS, make_float4(sums[j][0], sums[j][1], sums[j][2], sums[j][3]));
            to += p.sets * (TILES * SUMS);
        }
        finish(first, last - first);
    }

    // step multiplies a step of the window, then asks for the weights that take its place, of group
    // `next` once those of this round are all asked for.
    template <int STEP, int SWIZZLES>
    __device__ __forceinline__ void step(float (&sums)[TILES][4], Unit (&ring)[RING], const uint32_t (&from)[SWIZZLES], Rows &at, int next,
                                         int last, bool waits, int before) const {
        Unit &u = ring[STEP % RING];
        Group g;
        uint32_t b[4];
        if (waits) barrierWait(arrived + 8 * (before + STEP >> p.shift), 0);
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
        }
        if constexpr (STEP + RING < NARROW_STEPS) {
            load<STEP + RING>(u, at);
        } else {
            if constexpr (STEP + RING == NARROW_STEPS) {
                if (before + NARROW_STEPS == span()) {
                    at = rows(min(next, last - 1));
                } else {
                    at.codes += NARROW_STEPS * Weights::BYTES, at.scales += NARROW_STEPS * Weights::BYTES;
                }
            }
            if (next < last) load<STEP + RING - NARROW_STEPS>(u, at);
        }
    }

    // fetchTokens copies the tokens of the block's windows, 16 threads 16 bytes each of a slot's row.
    __device__ __forceinline__ void fetchTokens() const {
        const int column = threadIdx.x % 16, copiers = blockDim.x / 16, copier = threadIdx.x / 16;
        const int slots = p.windows << p.shift; // of a quarter
        // Where slots are few, several rows of each are copied at a time.
        const int abreast = max(copiers / slots, 1), first = copier / slots;
#pragma unroll 1
        for (int quarter = 0; quarter < 4; quarter++) {
#pragma unroll 1
            for (int slot = first < abreast ? copier - first * slots : slots; slot < slots; slot += copiers) {
                const int window = slot >> p.shift, within = (quarter << p.shift) + slot - (window << p.shift);
                const int own = (part * p.windows + window) * span();
                const int step = min(own, p.steps - span()) + within;
                const int bytes = step >= own ? max(0, min(16, 2 * p.k - column * 16 - step * (2 * BLOCK_K))) : 0;
                const uint32_t to = tokens + (window * span() + within) * 256;
                for (int row = first; row < p.m; row += abreast) {
                    // What is not there must not be pointed to either.
                    const uint8_t *source = bytes > 0 ? p.tokens + row * p.tokenBytes + column * 16 + step * (2 * BLOCK_K) : p.tokens;
                    copyPart(to + row * rowBytes() + (column ^ (row & 7)) * 16, source, bytes);
                }
            }
            arriveWhenCopied(arrived + 8 * quarter);
        }
    }

    // rowBytes is how far a token's slots lie from the next one's.
    __device__ __forceinline__ int rowBytes() const { return p.windows * span() * 256; }

    // finish adds the sums of all windows, of all parts of K, and writes C.
    __device__ __forceinline__ void finish(int first, int groups) const {
        const int all = groups * TILES, warps = blockDim.x / 32;
        const uint32_t mine = tokens + p.scratch + lane * 16, gathered = tokens + lane * 16;
        if (gridDim.y == 1) {
            __syncthreads();
            for (int i = warp; i < all; i += warps) put(addedSums(mine + i * SUMS, p.windows, p.most * (TILES * SUMS)), first, i);
            return;
        }
        // Each of the blocks finishes as many sums, which the others put where its tokens were.
        const int parts = gridDim.y;
        const uint32_t bar = tokens + p.scratch - 16;
        clusterArrive(bar, (all - part + parts - 1) / parts * parts * SUMS);
        __syncthreads();
        clusterWait();
        for (int i = warp; i < all; i += warps) {
            const int owner = i % parts;
            sendSums(gathered + (i - owner + part) * SUMS, bar, owner, addedSums(mine + i * SUMS, p.windows, p.most * (TILES * SUMS)));
        }
        received(bar);
        for (int i = warp * parts + part; i < all; i += warps * parts) put(addedSums(gathered + (i - part) * SUMS, parts, SUMS), first, i);
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
