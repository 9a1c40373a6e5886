// arch: 75 80 86 89 90a ptx90 100 120
//
// fused_product: a product for one row as a decoder has it, in one launch with the norm
// before it and what is done with the result (fused_product.cuh), around the very loop of
// gemv (gemv.cuh). Compute capability 7.5 and up; for 16-bit types on 9.0 there is
// fused_ring.cu.
//
// Block: a tile of 16 rows, of a gated unit eight of gate and the eight of up that belong to
// them, and 128 to 256 threads. With a norm each block computes it for itself, from the L2.
//
// Dynamic shared memory: the sums of gemv.cuh, with a norm then a float a warp, padded to
// 16 bytes, and the row: ldb elements.
#include "fused_product.cuh"

namespace gemv {

constexpr int KEPT = 2; // fours of the norm's weights in registers

template <Type T, bool NORM>
struct FusedTokens {
    static constexpr int SIZE = Traits<T>::size;
    const FusedParams &p;
    uint8_t *normed;
    float *scratch;
    const char *a;

    __device__ __forceinline__ void begin() const {
        if constexpr (NORM) {
            Norm<T, KEPT> norm;
            norm.fetch(p, threadIdx.x, blockDim.x);
            waitForPredecessor();
            norm.apply(p, normed, scratch, threadIdx.x, blockDim.x, [] { __syncthreads(); });
        } else {
            waitForPredecessor();
        }
    }
    __device__ __forceinline__ const char *row(int) const { return a; }
    __device__ __forceinline__ uint4 load(const char *row, int at) const {
        if constexpr (NORM) {
            return at < p.ldb * SIZE ? *reinterpret_cast<const uint4 *>(normed + at) : make_uint4(0, 0, 0, 0);
        } else {
            return loadToken<SIZE>(row, at, p.k * SIZE, p.aligned != 0);
        }
    }
};

// Tile is a block's 16 rows of weights.
struct Tile {
    int expert;   // which of those side by side
    int first;    // row of the matrix
    int distance; // from the first eight to the second
    int inside;   // how many of the rows there are; of a gated unit, of each eight
    bool gated;

    __device__ __forceinline__ Tile(const FusedParams &p, int experts) {
        gated = p.half != 0;
        const int tiles = static_cast<int>(gridDim.x) / experts; // of an expert
        expert = experts == 1 ? 0 : static_cast<int>(blockIdx.x) / tiles;
        first = (static_cast<int>(blockIdx.x) - expert * tiles) * (gated ? ROWS / 2 : ROWS);
        distance = gated ? p.half : ROWS / 2;
        inside = (gated ? p.half : p.n) - first;
    }
    // row is the matrix's row of the tile's i-th; has, whether there is one.
    __device__ __forceinline__ int row(int i) const { return first + i % (ROWS / 2) + i / (ROWS / 2) * distance; }
    __device__ __forceinline__ bool has(int i) const { return (gated ? i % (ROWS / 2) : i) < inside; }
};

template <Type T, bool NORM, Experts E = Experts::NONE>
__device__ __forceinline__ void fused(const Params<E> &p) {
    constexpr int SIZE = Traits<T>::size, TOKENS = T == Type::FP32 ? 2 : 8;
    extern __shared__ __align__(16) uint8_t memory[];
    const int warps = blockDim.x / 32, g = threadIdx.x % 32 / 4;
    const Tile tile(p, sideBySide<E>(p));
    if (E == Experts::UNITS) waitForPredecessor(); // for the choice
    dependentsMayStart();
    float *scratch = reinterpret_cast<float *>(memory) + warps * 8 * PITCH;
    uint8_t *normed = reinterpret_cast<uint8_t *>(scratch) + (warps * 4 + 15) / 16 * 16;
    float total = 0; // of experts that are added up
    const int last = addedUp<E>(p) - 1;
    for (int i = 0; i <= last; i++) {
        const Rows rows{weightsOf<E>(p, E == Experts::UNITS ? tile.expert : i) + tile.row(g) * SIZE * p.ldb, tile.distance * SIZE * p.ldb,
                        tile.has(g + ROWS / 2) ? 2 : tile.has(g)};
        const FusedTokens<T, NORM> tokens{p, normed, scratch, static_cast<const char *>(p.a) + static_cast<int64_t>(i) * p.k * SIZE};
        products<T, 1, TOKENS>(rows, p.k * SIZE, 1, tokens, [&](int, int row, float sum) {
            if constexpr (E == Experts::OUTPUTS) {
                total = fmaf(shareOf<E>(p, i), sum, total);
                if (i < last) return;
                sum = total;
            }
            // The 16 sums are in adjacent lanes.
            const float up = __shfl_down_sync(0xffff, sum, ROWS / 2);
            if (!tile.has(row) || (tile.gated && row >= ROWS / 2)) return;
            const int at = tile.row(row);
            output<T>(p, at + tile.expert * p.half, sum, up, p.c ? 0 : __ldcg(p.x + at));
        });
        if (i < last) __syncthreads(); // before the sums are overwritten
    }
}

} // namespace gemv

#define GA_FUSED(NAME, T)                                                                                          \
    extern "C" __global__ void __launch_bounds__(256, 2) ga_fused_##NAME(const __grid_constant__ gemv::FusedParams p) { \
        gemv::fused<gemv::Type::T, false>(p);                                                                      \
    }                                                                                                              \
    extern "C" __global__ void __launch_bounds__(256, 2)                                                            \
        ga_fused_norm_##NAME(const __grid_constant__ gemv::FusedParams p) {                                        \
        gemv::fused<gemv::Type::T, true>(p);                                                                       \
    }                                                                                                              \
    extern "C" __global__ void __launch_bounds__(256, 2)                                                            \
        ga_units_##NAME(const __grid_constant__ gemv::ExpertParams p) {                                            \
        gemv::fused<gemv::Type::T, true, gemv::Experts::UNITS>(p);                                                 \
    }                                                                                                              \
    extern "C" __global__ void __launch_bounds__(256, 2)                                                            \
        ga_outputs_##NAME(const __grid_constant__ gemv::ExpertParams p) {                                          \
        gemv::fused<gemv::Type::T, false, gemv::Experts::OUTPUTS>(p);                                              \
    }

GA_FUSED(fp32, FP32)
GA_FUSED(fp16, FP16)
#if __CUDA_ARCH__ >= 800
GA_FUSED(bf16, BF16)
#endif
