// C = A·Wᵀ of up to 64 rows of 16-bit activations and weights of 4 or 8 bits, compute capability
// 9.0a, computed as its transpose by wgmma with weights in registers, as in quantised.cuh. Here
// they go there straight from memory, as in quantised_narrow.cuh, and tokens stay where they are:
// no stage is handed on, so that nothing but the tensor cores holds up a warp.
//
// A block has a part of K and a range of rows of weights, in units of 64, which its four
// warpgroups take in turn. The tokens of its part lie in shared memory throughout, one slot for each
// step, as TMA swizzles them in 128-byte rows. The blocks of a cluster share rows and cut K; their
// sums are sent through distributed shared memory to where tokens were, and added in the order of
// the parts: the same bits every time. Sums of units before a warpgroup's last are parked.
//
// Overlapped launches: weights are asked for before the predecessor has ended, all else after it.
#pragma once

#include "quantised_narrow.cuh"
#include "wgmma_registers.cuh"

namespace quantised {

struct ResidentParams {
    TensorMap tokens; // m rows of k, boxes of TOKENS rows by 64 of K
    const uint8_t *weights;
    void *c;
    int64_t ldc;
    uint64_t policy; // by which L2 keeps weights
    int m, n;
    int steps;     // of K, even
    int share;     // of them of a part, even
    int run, rest; // units of rows of a block, of which the first rest blocks have one more
    int parked;    // where in shared memory barriers begin, and behind 256 bytes parked sums
    int pairs;     // two elements of C may be written at once
    int early;     // steps of a warpgroup's first unit that are asked for besides those on the way
};

constexpr int RESIDENT_THREADS = 512;
constexpr int RESIDENT_WARPGROUPS = RESIDENT_THREADS / 128;
constexpr int RESIDENT_BARRIERS = 256; // bytes: of each slot, and one for sums

template <Operand T, int BITS, int GROUP, bool ZEROS, int TOKENS>
struct Resident {
    using Weights = Record<T, BITS, GROUP, ZEROS>;
    static constexpr int TILES = TOKENS / 8;
    static constexpr int HALF_SLOT = TOKENS * 128; // 64 of K
    static constexpr int SLOT = 2 * HALF_SLOT;
    static constexpr int SUMS = 512; // bytes of a warp's sums of 16 rows and 8 tokens
    static constexpr int PER_STEP = BLOCK_K / GROUP;

    // How many steps' weights a warp has on the way: as many as registers hold.
    static constexpr int RING = BITS == 8 && ZEROS && GROUP == 32 ? 1 : 2;

    // Unit is a thread's weights of one step.
    struct Unit {
        uint32_t words[8 * Weights::WORDS], scales[PER_STEP], zeros[ZEROS ? PER_STEP : 1];
    };

    const ResidentParams &p;
    uint32_t tokens, full, summed;
    int lane, group, part, begin, count;

    __device__ Resident(const ResidentParams &params) : p(params) {
        extern __shared__ __align__(1024) uint8_t shared[];
        tokens = sharedAddress(shared);
        full = tokens + p.parked;
        summed = full + RESIDENT_BARRIERS - 8;
        lane = threadIdx.x % 32;
        group = threadIdx.x / 128;
        part = blockIdx.y;
        begin = part * p.share;
        count = min(p.share, p.steps - begin);
    }

    // unit is where a thread's codes of 64 rows lie in the first step of the part.
    __device__ __forceinline__ const uint8_t *unit(int index) const {
        return record<Weights::BYTES>(p, index / 2, begin) + index % 2 * Weights::PART + threadIdx.x % 128 * 16;
    }

    __device__ __forceinline__ void load(Unit &u, const uint8_t *codes) const {
#pragma unroll
        for (int i = 0; i < 2 * Weights::WORDS; i++) {
            const uint4 v = loadWeights16(codes + i * 2048, p.policy);
            u.words[4 * i] = v.x, u.words[4 * i + 1] = v.y, u.words[4 * i + 2] = v.z, u.words[4 * i + 3] = v.w;
        }
        // From 16 bytes of each of 128 threads to four of each row and the one eight below.
        const int thread = threadIdx.x % 128;
        const uint8_t *scales = codes - thread * 16 + (thread / 32 * 8 + thread % 32 / 4) * 4 + Weights::CODES;
#pragma unroll
        for (int i = 0; i < PER_STEP; i++) {
            u.scales[i] = loadWeights4(scales + i * SCALE_BYTES, p.policy);
            if constexpr (ZEROS) u.zeros[i] = loadWeights4(scales + i * SCALE_BYTES + Weights::SCALES, p.policy);
        }
    }

    // prefetch asks for the sectors of a unit's early steps, so that they are in L2 when they are loaded.
    __device__ __forceinline__ void prefetch(int index) const {
        const uint8_t *at = record<Weights::BYTES>(p, index / 2, begin) + index % 2 * Weights::PART + lane * 32;
#pragma unroll 1
        for (int step = 2 + threadIdx.x / 32 % 4; step < min(count, 2 + p.early); step += 4) {
            for (int i = 0; i < Weights::PART; i += 1024) {
                if (i + lane * 32 < Weights::PART) prefetchSector(at + static_cast<int64_t>(step) * Weights::BYTES + i);
            }
        }
    }

    __device__ void run() {
        const int block = blockIdx.x;
        const int first = p.run * block + min(block, p.rest), last = first + p.run + (block < p.rest);
        int index = first + group;
        Unit ring[RING];
        const uint8_t *at = unit(min(index, last - 1));
        if (index < last) {
            load(ring[0], at);
            if constexpr (RING == 2) load(ring[1], at + Weights::BYTES);
            prefetch(index);
        }
        if (threadIdx.x < 32 && electOne()) {
            prefetchMap(&p.tokens);
#pragma unroll 1
            for (int s = 0; s < count; s++) barrierInit(full + 8 * s, 1);
            barrierInitFence();
        }
        __syncthreads();
        dependentsMayStart();
        waitForPredecessor();
        if (threadIdx.x < 32 && electOne()) {
#pragma unroll 1
            for (int s = 0; s < count; s++) {
                barrierExpect(full + 8 * s, SLOT);
                loadBox(tokens + s * SLOT, &p.tokens, (begin + s) * BLOCK_K, 0, full + 8 * s);
                loadBox(tokens + s * SLOT + HALF_SLOT, &p.tokens, (begin + s) * BLOCK_K + 64, 0, full + 8 * s);
            }
        }
        __syncwarp();

        float sums[TOKENS / 2];
        uint32_t park = full + RESIDENT_BARRIERS + group * (4 * TILES * SUMS) + threadIdx.x / 32 % 4 * (TILES * SUMS) + lane * 16;
        const bool mine = index < last;
        bool waits = true; // for tokens
        for (; index < last; index += RESIDENT_WARPGROUPS) {
            const bool more = index + RESIDENT_WARPGROUPS < last;
            const uint8_t *next = unit(more ? index + RESIDENT_WARPGROUPS : index);
            multiply(sums, ring, at, next, more, waits);
            waits = false;
            if (gridDim.y == 1) {
                put(sums, index);
            } else if (more) {
#pragma unroll
                for (int j = 0; j < TILES; j++) storeSums(park + j * SUMS, make_float4(sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]));
                park += RESIDENT_WARPGROUPS * (4 * TILES * SUMS);
            }
            at = next;
        }
        if (gridDim.y > 1) finish(sums, first, last, mine);
    }

    // multiply makes the sums of a unit, and asks for the first steps of the next one.
    __device__ __forceinline__ void multiply(float (&sums)[TOKENS / 2], Unit (&ring)[RING], const uint8_t *at, const uint8_t *next, bool more,
                                             bool waits) const {
#pragma unroll
        for (int i = 0; i < TOKENS / 2; i++) sums[i] = 0;
        pin(sums);
        uint32_t slot = static_cast<uint32_t>(wgmmaDescriptor(tokens)), bar = full;
#pragma unroll 1
        for (int left = count; left > 0; left -= 2) {
            // Two steps on, or the next unit's first ones.
            const uint8_t *ahead = left > 2 ? at + 2 * Weights::BYTES : next;
            const bool there = left > 2 || more;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t early[4][4], late[4][4];
                Group g;
                Unit &u = ring[i % RING];
                if (waits) barrierWait(bar, 0);
                widen<0>(u, g, early);
                start(sums, early, slot);
                widen<1>(u, g, late);
                const uint8_t *then = RING == 1 && i == 0 ? at + Weights::BYTES : ahead + i * (RING - 1) * Weights::BYTES;
                const bool loads = RING == 1 && i == 0 || there;
                if (BITS == 4 && loads) load(u, then);
                start(sums, late, slot + HALF_SLOT / 16);
                if (BITS == 8 && loads) load(u, then); // registers are few
                slot += SLOT / 16;
                bar += 8;
            }
            at = ahead;
        }
        wgmmaWait<0>();
        pin(sums);
    }

    // widen makes the operands of half a step.
    template <int HALF>
    static __device__ __forceinline__ void widen(const Unit &u, Group &g, uint32_t (&a)[4][4]) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            constexpr int PER_GROUP = GROUP / 16;
            const int of = HALF * 4 + k;
            if (of % PER_GROUP == 0) g = Weights::group(u.scales[of / PER_GROUP], u.zeros[ZEROS ? of / PER_GROUP : 0]);
            Weights::widen(u.words + of * Weights::WORDS, g, a[k]);
        }
    }

    // start starts the products of half a step, and returns when those of the half before are done.
    static __device__ __forceinline__ void start(float (&sums)[TOKENS / 2], const uint32_t (&a)[4][4], uint32_t slot) {
        wgmmaFence();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            WgmmaRegisters<T, TOKENS>::add(sums, a[k], static_cast<uint64_t>(64u | 1u << 30) << 32 | (slot + 2 * k));
        }
        wgmmaCommit();
        wgmmaWait<1>();
    }

    // pin keeps the compiler from moving what it does with the sums between wgmmas.
    static __device__ __forceinline__ void pin(float (&sums)[TOKENS / 2]) {
#pragma unroll
        for (int i = 0; i < TOKENS / 2; i++) asm volatile("" : "+f"(sums[i])::"memory");
    }

    // finish sends sums to the blocks that add them and write C, each as many of them: of every
    // warp's, the j-th of a unit goes to the same block.
    __device__ __forceinline__ void finish(const float (&sums)[TOKENS / 2], int first, int last, bool mine) const {
        const int parts = gridDim.y, all = (last - first) * (4 * TILES), quarter = threadIdx.x / 32 % 4;
        const uint32_t gathered = tokens + lane * 16;
        clusterArrive(summed, (all - part + parts - 1) / parts * parts * SUMS);
        clusterWait();
        if (mine) {
            uint32_t park = full + RESIDENT_BARRIERS + threadIdx.x / 32 * (TILES * SUMS) + lane * 16;
            int item = (group * 4 + quarter) * TILES;
            for (int index = first + group; index < last; index += RESIDENT_WARPGROUPS) {
                const bool more = index + RESIDENT_WARPGROUPS < last;
#pragma unroll
                for (int j = 0; j < TILES; j++) {
                    float4 v = make_float4(sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]);
                    if (more) v = loadSums(park + j * SUMS);
                    const int owner = (item + j) % parts;
                    sendSums(gathered + (item + j - owner + part) * SUMS, summed, owner, v);
                }
                park += RESIDENT_WARPGROUPS * (4 * TILES * SUMS);
                item += RESIDENT_WARPGROUPS * 4 * TILES;
            }
        }
        received(summed);
        for (int i = threadIdx.x / 32 * parts + part; i < all; i += RESIDENT_THREADS / 32 * parts) {
            const float4 v = addedSums(gathered + (i - part) * SUMS, parts, SUMS);
            writeSums<T>(p, v, i % TILES * 8, first * 64 + i / TILES * 16);
        }
    }

    // put writes a warp's sums.
    __device__ __forceinline__ void put(const float (&sums)[TOKENS / 2], int index) const {
#pragma unroll
        for (int j = 0; j < TILES; j++) {
            writeSums<T>(p, make_float4(sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]), 8 * j, index * 64 + threadIdx.x / 32 % 4 * 16);
        }
    }
};

} // namespace quantised

// GA_QUANTISED_RESIDENT makes the kernels for up to TOKENS tokens, without and with zero points:
// ga_w4a16_resident_bf16_g128_64 and _g128z_64.
#define GA_QUANTISED_RESIDENT_KERNEL(DTYPE, T, BITS, GROUP, SUFFIX, ZEROS, TOKENS)                                            \
    extern "C" __global__ void __launch_bounds__(quantised::RESIDENT_THREADS, 1)                                                \
        ga_w##BITS##a16_resident_##DTYPE##_g##GROUP##SUFFIX##_##TOKENS(const __grid_constant__ quantised::ResidentParams p) { \
        quantised::Resident<Operand::T, BITS, GROUP, ZEROS, TOKENS>(p).run();                                                 \
    }
#define GA_QUANTISED_RESIDENT(BITS, DTYPE, T, GROUP, TOKENS)            \
    GA_QUANTISED_RESIDENT_KERNEL(DTYPE, T, BITS, GROUP, , false, TOKENS) \
    GA_QUANTISED_RESIDENT_KERNEL(DTYPE, T, BITS, GROUP, z, true, TOKENS)
