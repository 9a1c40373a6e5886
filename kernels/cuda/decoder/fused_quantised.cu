// arch: 90a
//
// fused_quantised: fused_product.cu for weights that are integers with scales, in the records of
// quantised_weights.cuh, on compute capability 9.0.
//
// Block: 16 warps, two blocks a multiprocessor: it takes as many warps to make operands of codes as
// fast as memory brings them. A block takes every gridDim.x-th 16 rows of weights, of a gated unit 16
// of gate and the 16 of up that belong to them; its warps take every sixteenth 128 of K
// (fused_quantised.cuh).
//
// Overlapped launches: rings are filled with weights before the predecessor is waited for, and as
// in fused_ring.cu a block of the next kernel takes the place of each that ends.
//
// Experts: as in fused_ring.cu, but outputs are of at most BATCH times 16 rows a block.
//
// Dynamic shared memory: the rings, the row up to whole steps, sums of BATCH times 16 rows
// [16 rows][row][warp], a float a warp, then what results are added to.
#include "fused_quantised.cuh"

namespace gemv {

constexpr int QUANTISED_WARPS = 16;
constexpr int QUANTISED_THREADS = 32 * QUANTISED_WARPS;
constexpr int QUANTISED_BATCH = 8; // times 16 rows whose sums are added up at once
constexpr int QUANTISED_KEPT = 2;  // fours of the norm's weights in registers: k 4096
constexpr int QUANTISED_ROOM = 72 << 10; // of the rings, at most: two blocks fit at k 14336

// Sixteens is what a block has of a product: 16 rows at a time, of a gated unit gate and up in turn.
// Units of experts that lie side by side are counted through.
template <Experts E>
struct Sixteens {
    const Params<E> &p;

    __device__ __forceinline__ int steps() const { return static_cast<int>(p.ldb) / quantised::BLOCK_K; } // along K
    // half is where the up rows of a gated unit begin, in sixteens; 0 for none.
    __device__ __forceinline__ uint32_t half() const { return p.half / 16; }
    __device__ __forceinline__ int count() const {
        const int all = (half() ? half() : (p.n + 15) / 16) * sideBySide<E>(p);
        const int mine = (all - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
        return half() ? 2 * mine : mine;
    }
    // at is where the results of the i-th of the block's begin, in sixteens; of up rows, half behind.
    __device__ __forceinline__ uint32_t at(uint32_t i) const {
        if (!half()) return blockIdx.x + i * gridDim.x;
        return blockIdx.x + i / 2 * gridDim.x + (i % 2 ? half() : 0);
    }
};

// Walk goes through the weights of a block's 16 rows: of outputs, through all of one expert before the next.
template <Experts E>
struct Walk {
    const char *weights = nullptr; // of units of expert `expert`; elsewhere registers are too few to keep them
    int expert = -1;
    uint32_t past = 0; // sixteens of the experts before

    struct Place {
        const char *weights;
        uint32_t sixteen; // of the matrix
    };

    __device__ __forceinline__ Place go(const Sixteens<E> &rows, uint32_t i) {
        if constexpr (E == Experts::UNITS) {
            const uint32_t up = i % 2 ? rows.half() : 0, at = rows.at(i) - up;
            int of = max(expert, 0);
            while (at - past >= rows.half() && of + 1 < rows.p.count) past += rows.half(), of++;
            if (of != expert) weights = weightsOf<E>(rows.p, expert = of);
            return {weights, at - past + up};
        } else if constexpr (E == Experts::OUTPUTS) {
            const uint32_t count = rows.count(), of = min(i / count, rows.p.count - 1);
            return {weightsOf<E>(rows.p, of), rows.at(i - of * count)};
        } else {
            return {weightsOf<E>(rows.p, 0), rows.at(i)};
        }
    }
};

template <Type T, int BITS, int GROUP, bool ZEROS, Experts E = Experts::NONE>
__device__ __forceinline__ void fusedQuantised(const Params<E> &p) {
    using Step = QuantisedStep<T, BITS, GROUP, ZEROS, QUANTISED_WARPS, QUANTISED_ROOM>;
    extern __shared__ __align__(128) uint8_t memory[];
    const Sixteens<E> rows{p};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint8_t *row = memory + QUANTISED_WARPS * Step::RING;
    float *sums = reinterpret_cast<float *>(row + 2 * p.ldb);
    float *scratch = sums + QUANTISED_BATCH * 16 * QUANTISED_WARPS, *added = scratch + QUANTISED_WARPS;
    const uint32_t ring = sharedAddress(memory) + warp * Step::RING + lane * 16, end = ring + Step::RING;
    const int each = (rows.steps() - warp + QUANTISED_WARPS - 1) / QUANTISED_WARPS; // steps of 16 rows

    auto sync = [] { __syncthreads(); };
    auto normalize = [&] {
        Norm<T, QUANTISED_KEPT> norm;
        norm.fetch(p, threadIdx.x, QUANTISED_THREADS);
        if (E != Experts::UNITS) waitForPredecessor();
        norm.apply(p, row, scratch, threadIdx.x, QUANTISED_THREADS, sync);
    };
    if constexpr (E == Experts::UNITS) {
        normalize();
        waitForPredecessor(); // for the choice
    }
    dependentsMayStart();
    // What the warp fetches next: which of the block's rows, and how many steps of them are left.
    int ahead = 0, left = each;
    int all = rows.count() * each * addedUp<E>(p); // that are left of all
    typename Step::Source source;
    Walk<E> walk;
    auto begin = [&](uint32_t i) {
        const auto place = walk.go(rows, i);
        source.begin(place.weights, place.sixteen, rows.steps(), warp);
    };
    begin(0);
    auto fetch = [&](uint32_t to) {
        if (all > 0) {
            all--;
            source.fetch(to);
            if (--left == 0) {
                left = each;
                begin(++ahead);
            }
        }
        commitStep();
    };
#pragma unroll 1
    for (uint32_t to = ring; to < end - Step::STAGE; to += Step::STAGE) fetch(to);

    // Each warp for itself: no other multiplies with its steps.
    auto loadRow = [&](int expert) {
        const char *a = static_cast<const char *>(p.a) + static_cast<int64_t>(expert) * p.k * 2;
        constexpr int BYTES = 2 * quantised::BLOCK_K;
        __syncwarp(); // the row before was read
#pragma unroll 4
        for (int s = lane / 16; s < each; s += 2) {
            const int at = (warp + s * QUANTISED_WARPS) * BYTES + lane % 16 * 16;
            *reinterpret_cast<uint4 *>(row + at) = loadToken<2>(a, at, p.k * 2, p.aligned != 0);
        }
        __syncwarp();
    };
    if constexpr (E == Experts::NONE) {
        if (p.weight) {
            normalize();
        } else {
            waitForPredecessor();
#pragma unroll 4
            for (int at = threadIdx.x * 16; at < 2 * p.ldb; at += QUANTISED_THREADS * 16) {
                *reinterpret_cast<uint4 *>(row + at) = loadToken<2>(static_cast<const char *>(p.a), at, p.k * 2, p.aligned != 0);
            }
            sync();
            }
    } else if constexpr (E == Experts::OUTPUTS) {
        waitForPredecessor();
        loadRow(0);
    }

    const uint32_t rowAt = sharedAddress(row) + lane / 8 * 16 + warp * (2 * quantised::BLOCK_K);
    const uint32_t scales = Step::CODES + lane / 4 * 4 - lane * 16;
    const int limit = (p.half ? p.half : p.n) * sideBySide<E>(p); // results
    uint32_t stage = ring;
    for (int batch = 0; batch < rows.count(); batch += QUANTISED_BATCH) {
        const int count = min(QUANTISED_BATCH, rows.count() - batch);
        // This thread's result, limit for none: of a gated unit a row of gate and up, else a row. x is
        // asked for now, and here when it is needed.
        auto result = [&] {
            const int of = rows.half() ? threadIdx.x / 16 * 2 : threadIdx.x / 16;
            const int row = of < count ? static_cast<int>(rows.at(batch + of) * 16 + threadIdx.x % 16) : limit;
            return row < limit ? row : limit;
        };
        if (p.c == nullptr && result() < limit) added[threadIdx.x] = __ldcg(p.x + result());
        for (int expert = 0; expert < addedUp<E>(p); expert++) {
            if (E == Experts::OUTPUTS && expert > 0) loadRow(expert);
            for (int i = 0; i < count; i++) {
                float mine[2] = {}; // sums of rows g and g+8
                uint32_t at = rowAt;
#pragma unroll 1
                for (int s = 0; s < each; s++) {
                    waitSteps<Step::STAGES - 2>();
                    __syncwarp(); // all lanes' scales are there, and all have read what is overwritten next
                    fetch((stage == ring ? end : stage) - Step::STAGE); // the one before
                    Step::multiply(mine, stage, scales, at);
                    at += QUANTISED_WARPS * 2 * quantised::BLOCK_K;
                    if ((stage += Step::STAGE) == end) stage = ring;
                }
                if (lane % 4 == 0) {
                    const float share = shareOf<E>(p, expert);
                    float *to = sums + (i * 16 + lane / 4) * QUANTISED_WARPS + warp;
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        float &sum = to[r * 8 * QUANTISED_WARPS];
                        sum = E == Experts::OUTPUTS ? fmaf(share, mine[r], expert > 0 ? sum : 0) : mine[r];
                    }
                }
            }
        }
        sync();
        if (const int at = result(); at < limit) {
            float sum[2];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int of = rows.half() ? threadIdx.x / 16 * 2 + r : threadIdx.x / 16;
                const float *all = sums + (of * 16 + threadIdx.x % 16) * QUANTISED_WARPS;
                sum[r] = 0;
#pragma unroll
                for (int w = 0; w < QUANTISED_WARPS; w++) sum[r] += all[w];
            }
            output<T>(p, at, sum[0], sum[1], p.c == nullptr ? added[threadIdx.x] : 0);
        }
        if (E == Experts::OUTPUTS) break; // there is one
        if (batch + QUANTISED_BATCH < rows.count()) sync(); // before the sums are overwritten
    }
    waitSteps<0>();
}

} // namespace gemv

// GA_FUSED makes the kernels of a format: ga_integers_w4_bf16_g128 and, with zero points, _g128z; those of
// experts have units or outputs for integers.
#define GA_FUSED_KERNEL(NAME, PARAMS, EXPERTS, BITS, DTYPE, T, GROUP, SUFFIX, ZEROS)   \
    extern "C" __global__ void __launch_bounds__(gemv::QUANTISED_THREADS, 2)           \
        ga_##NAME##_w##BITS##_##DTYPE##_g##GROUP##SUFFIX(const __grid_constant__ gemv::PARAMS p) { \
        gemv::fusedQuantised<gemv::Type::T, BITS, GROUP, ZEROS, gemv::Experts::EXPERTS>(p); \
    }
#define GA_FUSED(NAME, PARAMS, EXPERTS, BITS, DTYPE, T, GROUP)                \
    GA_FUSED_KERNEL(NAME, PARAMS, EXPERTS, BITS, DTYPE, T, GROUP, , false)    \
    GA_FUSED_KERNEL(NAME, PARAMS, EXPERTS, BITS, DTYPE, T, GROUP, z, true)
#define GA_FUSED_GROUPS(NAME, PARAMS, EXPERTS, BITS, DTYPE, T) \
    GA_FUSED(NAME, PARAMS, EXPERTS, BITS, DTYPE, T, 32)        \
    GA_FUSED(NAME, PARAMS, EXPERTS, BITS, DTYPE, T, 64)        \
    GA_FUSED(NAME, PARAMS, EXPERTS, BITS, DTYPE, T, 128)
#define GA_FUSED_TYPES(NAME, PARAMS, EXPERTS, BITS)           \
    GA_FUSED_GROUPS(NAME, PARAMS, EXPERTS, BITS, fp16, FP16)  \
    GA_FUSED_GROUPS(NAME, PARAMS, EXPERTS, BITS, bf16, BF16)

GA_FUSED_TYPES(integers, FusedParams, NONE, 4)
GA_FUSED_TYPES(integers, FusedParams, NONE, 8)
GA_FUSED_TYPES(units, ExpertParams, UNITS, 4)
GA_FUSED_TYPES(outputs, ExpertParams, OUTPUTS, 4)
