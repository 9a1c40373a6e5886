// arch: 90a
//
// fused_chain: up to four products of fused_quantised.cu that depend on each other, in one launch: what a
// decoder has between one attention and the next. Compute capability 9.0, integers of 4 bits.
//
// Between launches memory has nothing to do for as long as a block needs to begin, to fetch the row and to add
// up its sums, which for the smaller products of a 7B is longer than reading their weights takes. Here the rings
// run on from one product to the next: while all blocks wait for a row, memory brings the weights that are
// multiplied with it.
//
// Block: 32 warps, at most one block a multiprocessor. A block takes every gridDim.x-th 16 rows of weights of each product,
// of a gated unit 16 of gate and the 16 of up that belong to them; its warps take every 32nd 128 of K
// (fused_quantised.cuh). Sums of all of a product's rows are added up at its end, by four lanes each.
//
// A product begins when all blocks have written their results of the one before: each block counts up
// a word in global memory, which the last one turns to zero, and waits for the zero. All blocks must be
// on the GPU at the same time. The words are zero between launches.
//
// Overlapped launches: weights are fetched before the predecessor is waited for.
//
// Dynamic shared memory: the rings, the row up to whole steps, sums [16 rows][warp][row + 1 of
// padding], a float a warp, then what results are added to.
#include "fused_quantised.cuh"

namespace gemv {

constexpr int CHAIN_WARPS = 32;
constexpr int CHAIN_THREADS = 32 * CHAIN_WARPS;
constexpr int CHAIN_ROOM = 108 << 10; // of the rings: three stages, more are slower on an H200
constexpr int CHAIN_PITCH = 17;
constexpr int CHAIN_SLOT = CHAIN_WARPS * CHAIN_PITCH; // floats of the sums of 16 rows
constexpr int CHAIN_MOST = 4;                         // products
constexpr int PATIENCE = 1 << 24;                     // looks at a word, some seconds

struct ChainParams {
    // stages is how many times 16 rows all blocks have, and early how many blocks have them once more; of gated units, pairs.
    FusedParams products[CHAIN_MOST];
    int count;    // of products
    int most;     // times 16 rows that a block has of one of them
    int rowBytes; // of the longest row, whole steps
    uint32_t *words;
};

// arrive counts up a word; the last block makes it zero. What the block has written before is there for whoever sees that.
__device__ __forceinline__ void arrive(uint32_t *word) {
    asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(word), "r"(gridDim.x - 1) : "memory");
}

__device__ __forceinline__ void waitForZero(const uint32_t *word) {
    for (int looks = 0; looks < PATIENCE; looks++) {
        uint32_t v;
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
        if (v == 0) return;
    }
    __trap(); // not all blocks are on the GPU
}

// Link is a product as a block sees it, 16 rows at a time. Numbers of the division of rows by blocks come from the host.
struct Link {
    const FusedParams &p;

    __device__ __forceinline__ int steps() const { return static_cast<int>(p.ldb) / quantised::BLOCK_K; } // along K
    // each is how many of them a warp has.
    __device__ __forceinline__ int each(int warp) const { return (steps() - warp + CHAIN_WARPS - 1) / CHAIN_WARPS; }
    // mine is how many sixteens a block has; of a gated unit, pairs of them.
    __device__ __forceinline__ int mine() const { return p.stages + (static_cast<int>(blockIdx.x) < p.early); }
    __device__ __forceinline__ int count() const { return p.half ? 2 * mine() : mine(); }
    // The block's results, and where the t-th is.
    __device__ __forceinline__ int results() const { return 16 * mine(); }
    __device__ __forceinline__ int resultAt(int t) const { return static_cast<int>(blockIdx.x + t / 16 * gridDim.x) * 16 + t % 16; }
    __device__ __forceinline__ int limit() const { return p.half ? p.half : p.n; }
};

// Walk is what a warp fetches next: steps of 16 rows, of all of the block's in a product, of one product after the other.
template <class Step>
struct Walk {
    const ChainParams &c;
    typename Step::Source source;
    int product = 0, sixteens = 0, left = 0; // those left of this product, and steps left of these 16 rows
    int each = 0, jump = 0, other = 0;       // bytes to the next 16 rows, and to those after them

    __device__ __forceinline__ explicit Walk(const ChainParams &params) : c(params) { begin(); }

    // begin goes to the next product in which the warp has something to do. A block's rows lie at the same place in their
    // records: blocks are a multiple of eight sixteens.
    __device__ __forceinline__ void begin() {
        const int warp = threadIdx.x / 32;
        while (product < c.count) {
            const Link link{c.products[product++]};
            sixteens = link.count(), left = each = link.each(warp);
            if (sixteens <= 0 || each <= 0) continue;
            source.begin(static_cast<const char *>(link.p.b), blockIdx.x, link.steps(), warp);
            const int record = link.steps() * Step::Record::BYTES, back = each * CHAIN_WARPS * Step::Record::BYTES;
            const int up = link.p.half / 128 * record;
            jump = static_cast<int>(gridDim.x / 8) * record - back, other = jump;
            if (up) other = jump - up, jump = up - back;
            return;
        }
        left = 0;
    }

    // fetch starts the copies of a step to where the lane's codes of a stage lie.
    __device__ __forceinline__ void fetch(uint32_t to) {
        if (left > 0) {
            source.fetch(to);
            if (--left == 0) {
                if (--sixteens > 0) {
                    source.codes += jump;
                    const int next = other;
                    other = jump, jump = next, left = each;
                } else {
                    begin();
                }
            }
        }
        commitStep();
    }
};

template <Type T, int BITS, int GROUP, bool ZEROS>
__device__ __forceinline__ void fusedChain(const ChainParams &c) {
    using Step = QuantisedStep<T, BITS, GROUP, ZEROS, CHAIN_WARPS, CHAIN_ROOM>;
    extern __shared__ __align__(128) uint8_t memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint8_t *row = memory + CHAIN_WARPS * Step::RING;
    float *sums = reinterpret_cast<float *>(row + c.rowBytes);
    float *scratch = sums + c.most * CHAIN_SLOT, *added = scratch + CHAIN_WARPS;
    const uint32_t ring = sharedAddress(memory) + warp * Step::RING + lane * 16, end = ring + Step::RING;
    dependentsMayStart();
    Walk<Step> walk(c);
#pragma unroll 1
    for (uint32_t to = ring; to < end - Step::STAGE; to += Step::STAGE) walk.fetch(to);

    auto sync = [] { __syncthreads(); };
    const uint32_t rowAt = sharedAddress(row) + lane / 8 * 16 + warp * (2 * quantised::BLOCK_K);
    const uint32_t scales = Step::CODES + lane / 4 * 4 - lane * 16;
    uint32_t stage = ring;
#pragma unroll 1
    for (int number = 0; number < c.count; number++) {
        const FusedParams &p = c.products[number];
        const Link link{p};
        auto ready = [&] {
            if (number == 0) {
                waitForPredecessor();
            } else {
                if (threadIdx.x == 0) waitForZero(c.words + number - 1);
                sync();
            }
        };
        if (p.weight) {
            Norm<T, 1> norm;
            norm.fetch(p, threadIdx.x, CHAIN_THREADS);
            ready();
            norm.apply(p, row, scratch, threadIdx.x, CHAIN_THREADS, sync);
        } else {
            ready();
#pragma unroll 2
            for (int at = threadIdx.x * 16; at < 2 * p.ldb; at += CHAIN_THREADS * 16) {
                *reinterpret_cast<uint4 *>(row + at) = loadToken<2>(static_cast<const char *>(p.a), at, p.k * 2, p.aligned != 0);
            }
            sync();
        }
        // x is asked for now, and here when it is needed.
        for (int t = threadIdx.x; p.c == nullptr && t < link.results(); t += CHAIN_THREADS) {
            if (link.resultAt(t) < link.limit()) added[t] = __ldcg(p.x + link.resultAt(t));
        }

        const int each = link.each(warp);
        float *to = sums + warp * CHAIN_PITCH + lane / 4;
#pragma unroll 1
        for (int count = link.count(); count > 0; count--) {
            float mine[2] = {}; // sums of rows g and g+8
            uint32_t at = rowAt;
#pragma unroll 1
            for (int s = each; s > 0; s--) {
                waitSteps<Step::STAGES - 2>();
                __syncwarp(); // all lanes' scales are there, and all have read what is overwritten next
                walk.fetch((stage == ring ? end : stage) - Step::STAGE); // the one before
                Step::multiply(mine, stage, scales, at);
                at += CHAIN_WARPS * 2 * quantised::BLOCK_K;
                if ((stage += Step::STAGE) == end) stage = ring;
            }
            if (lane % 4 == 0) to[0] = mine[0], to[8] = mine[1];
            to += CHAIN_SLOT;
        }
        sync();
        // Lanes t, t+8, t+16 and t+24 have a quarter of the warps' sums each.
        for (int t = warp * 8 + lane % 8; t < link.results(); t += CHAIN_WARPS * 8) {
            constexpr int QUARTER = CHAIN_WARPS / 4;
            const float *from = sums + (p.half ? t / 16 * 2 : t / 16) * CHAIN_SLOT + lane / 8 * QUARTER * CHAIN_PITCH + t % 16;
            float sum[2] = {};
#pragma unroll
            for (int w = 0; w < QUARTER; w++) sum[0] += from[w * CHAIN_PITCH];
            if (p.half) {
#pragma unroll
                for (int w = 0; w < QUARTER; w++) sum[1] += from[CHAIN_SLOT + w * CHAIN_PITCH];
            }
#pragma unroll
            for (int r = 0; r < 2; r++) {
                sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 8);
                sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 16);
            }
            const int at = link.resultAt(t);
            if (lane < 8 && at < link.limit()) output<T>(p, at, sum[0], sum[1], p.c == nullptr ? added[t] : 0);
        }
        if (number + 1 < c.count) {
            sync();
            if (threadIdx.x == 0) arrive(c.words + number);
        }
    }
    waitSteps<0>();
}

} // namespace gemv

// GA_CHAIN makes the kernels of a format: ga_chain_w4_bf16_g128 and, with zero points, _g128z.
#define GA_CHAIN_KERNEL(DTYPE, T, GROUP, SUFFIX, ZEROS)                                                  \
    extern "C" __global__ void __launch_bounds__(gemv::CHAIN_THREADS, 1)                                 \
        ga_chain_w4_##DTYPE##_g##GROUP##SUFFIX(const __grid_constant__ gemv::ChainParams p) {            \
        gemv::fusedChain<gemv::Type::T, 4, GROUP, ZEROS>(p);                                             \
    }
#define GA_CHAIN(DTYPE, T, GROUP)                \
    GA_CHAIN_KERNEL(DTYPE, T, GROUP, , false)    \
    GA_CHAIN_KERNEL(DTYPE, T, GROUP, z, true)

// Groups of 32 take more registers than 1024 threads have.
GA_CHAIN(fp16, FP16, 64)
GA_CHAIN(fp16, FP16, 128)
GA_CHAIN(bf16, BF16, 64)
GA_CHAIN(bf16, BF16, 128)
