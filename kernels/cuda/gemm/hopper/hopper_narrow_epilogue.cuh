// hopper_narrow_kernel.cuh with an epilogue: a consumer applies it to the sums in its registers before it stores them.
#pragma once

#define GA_NARROW_FETCH(MAP, TO, BYTES, X, Y, BAR, BLOCKS, POLICY)             \
    if (gates(p))                                                              \
        fetchGates<DEPTH, K>(MAP, TO, BYTES, X, Y, BAR, BLOCKS, POLICY);       \
    else                                                                       \
        fetch(MAP, TO, BYTES, X, Y, BAR, BLOCKS, POLICY)
#define GA_NARROW_PUT(PARAMS, SUMS, TOKEN, COLUMN, SCRATCH) finish(PARAMS, SUMS, TOKEN, COLUMN, SCRATCH, Element<T>{})
#define GA_NARROW_PIECE(PARAMS, TYPE, ROW, COLUMN, PIECE) withResidual(PARAMS, TYPE, ROW, COLUMN, PIECE)

#include "epilogue.cuh"
#include "ptx.cuh"

namespace narrow {

struct Params;
__device__ bool gates(const Params &p);

// fetchGates is Narrow::fetch for weights with gates: in shared memory eight gates and eight of what they multiply take turns, so
// that a thread's two rows of 16 are a gate and its factor. The tensor has four dimensions: K, eight rows, the two halves, and how
// many times eight.
template <int DEPTH, int K>
__device__ __forceinline__ void fetchGates(const TensorMap *map, uint32_t to, int bytes, int x, int y, uint32_t bar, uint16_t blocks,
                                           uint64_t policy) {
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
        const uint32_t at = to + d * bytes;
        const int column = x + d * K, eights = y / 16;
        if (blocks) {
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
                " [%0], [%1, {%2, %3, %3, %4}], [%5], %6, %7;" ::"r"(at), "l"(map), "r"(column), "r"(0), "r"(eights), "r"(bar),
                "h"(blocks), "l"(policy) : "memory");
        } else {
            asm volatile(
                "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
                " [%0], [%1, {%2, %3, %3, %4}], [%5], %6;" ::"r"(at), "l"(map), "r"(column), "r"(0), "r"(eights), "r"(bar),
                "l"(policy) : "memory");
        }
    }
}

} // namespace narrow

#include "hopper_narrow_kernel.cuh"

namespace narrow {

// FusedParams is what a launch is told.
struct FusedParams : Params {
    alignas(64) Epilogue epilogue;
    int up; // columns between a gate and what it multiplies: half of the rows of weights, 0 without gates
};

__device__ __forceinline__ const FusedParams &fused(const Params &p) { return static_cast<const FusedParams &>(p); }

__device__ __forceinline__ bool gates(const Params &p) { return fused(p).up > 0; }

// added adds the residual to eight elements of a row of C, from column n on.
template <bool BF16>
__device__ __noinline__ uint4 added(const FusedParams &p, int token, int n, uint4 v) {
    return addPieces<BF16>(v, residualPiece(p.epilogue, token * p.ldc + n, p.n - n));
}

template <Operand T>
__device__ __forceinline__ uint4 withResidual(const Params &p, Element<T>, int token, int n, uint4 v) {
    if (fused(p).epilogue.residual == nullptr || token >= p.m || n >= p.n) return v;
    return added<T != Operand::FP16>(fused(p), token, n, v);
}

// putGated writes a warp's eight columns of C, from n on, of all tokens of a tile. d has the gates in the places of the first of 16 rows.
template <Operand T, int COUNT>
__device__ __forceinline__ void putGated(const Params &p, const float (&d)[COUNT], int token0, int n, uint32_t scratch) {
    constexpr int EIGHTS = COUNT / 4; // tokens
    constexpr bool BF16 = T != Operand::FP16;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < EIGHTS; j += 4) {
        uint32_t words[4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (j + i < EIGHTS) words[i] = packPair<BF16>(d[4 * (j + i)], d[4 * (j + i) + 1]);
        storeMatrices4Transposed(scratch + lane * 16, words[0], words[1], words[2], words[3]); // lane l has the row of token l
        __syncwarp();
        if (lane < 8 * (EIGHTS - j)) putRow<2>(p, token0 + 8 * j + lane, n, loadShared16(scratch + lane * 16));
        __syncwarp();
    }
}

// finish applies the epilogue to the sums of a thread, of which a warp has 16 rows of weights from n on, and writes C.
template <int COUNT, Operand T>
__device__ __forceinline__ void finish(const Params &params, float (&sums)[COUNT], int token, int n, uint32_t scratch, Element<T>) {
    constexpr bool BF16 = T != Operand::FP16;
    const FusedParams &p = fused(params);
    const int gate = n / 2 + threadIdx.x % 32 / 4, first = n + threadIdx.x % 32 / 4;
    const float upper = biasAt<BF16>(p.epilogue, p.up > 0 ? gate : first, p.n);
    const float lower = biasAt<BF16>(p.epilogue, p.up > 0 ? gate + p.up : first + 8, p.n);
#pragma unroll
    for (int i = 0; i < COUNT; i++) sums[i] += i % 4 < 2 ? upper : lower;
    if (p.up > 0) {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            sums[i] = sigmoidUnit(p.epilogue, sums[i]) * sums[i + 2];
            sums[i + 1] = sigmoidUnit(p.epilogue, sums[i + 1]) * sums[i + 3];
        }
        if (n < p.n) putGated<T>(p, sums, token, n / 2, scratch);
        return;
    }
    activate(p.epilogue, sums);
    putBlock<T, COUNT * 2>(p, sums, token, n, scratch);
}

} // namespace narrow

#define GA_SMALL_M_EPILOGUE(DTYPE, T, ROWS, TOKENS)                                                            \
    extern "C" __global__ void __launch_bounds__(128 * (ROWS / 64) + 32, 1)                                   \
        ga_hopper_epilogue_##DTYPE##_narrow_##ROWS##x##TOKENS(const __grid_constant__ narrow::FusedParams p) { \
        narrow::Narrow<Operand::T, ROWS / 64, TOKENS>(p).run();                                                \
    }
