// hopper_wide.cuh with an epilogue: a consumer applies it to the sums in its registers before it stores them.
#pragma once

#define GA_HOPPER_BEFORE_SEND(PARAMS, BOX, ROW, ROWS_END, COL, COLS_END, OUT) addResidual(PARAMS, BOX, ROW, ROWS_END, COL, COLS_END, OUT)

#include "epilogue.cuh"
#include "hopper_wide.cuh"

// FusedWideParams is what a launch is told.
struct FusedWideParams : WideParams {
    alignas(64) Epilogue epilogue;
};

namespace {

template <class Out>
constexpr bool IS_BFLOAT = false;
template <>
constexpr bool IS_BFLOAT<BfloatOut> = true;

// addBox adds the residual to a warp's box of C in shared memory: 16 rows of 128 bytes, swizzled. A lane has 16 bytes of every
// fourth row.
template <bool BF16>
__device__ __noinline__ void addBox(const FusedWideParams &p, uint32_t box, int row, int rowsEnd, int col, int colsEnd) {
    const int lane = threadIdx.x % 32, chunk = lane % 8, left = colsEnd - col - chunk * 8;
    uint4 added[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = lane / 8 + 4 * i;
        const bool there = row + r < rowsEnd && left > 0;
        added[i] = there ? residualPiece(p.epilogue, (row + r) * p.ldc + col + chunk * 8, left) : make_uint4(0, 0, 0, 0);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = lane / 8 + 4 * i;
        const uint32_t at = box + r * STEP_BYTES + (chunk ^ r % 8) * 16;
        uint4 v;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
        v = addPieces<BF16>(v, added[i]);
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
    }
    sharedToAsync();
    __syncwarp();
}

template <class Out>
__device__ __forceinline__ void addResidual(const HopperParams &params, uint32_t box, int row, int rowsEnd, int col, int colsEnd, Out) {
    const auto &p = static_cast<const FusedWideParams &>(static_cast<const WideParams &>(params));
    if (p.epilogue.residual != nullptr) addBox<IS_BFLOAT<Out>>(p, box, row, rowsEnd, col, colsEnd);
}

// Fused is a type of C whose sums pass an epilogue.
template <class Out>
struct Fused : Out {};

template <class Acc, class Out, int MMAS, int WIDTH, int SHARES>
struct Sums<Acc, Fused<Out>, MMAS, WIDTH, SHARES> : Sums<Acc, Out, MMAS, WIDTH, SHARES> {
    using Plain = Sums<Acc, Out, MMAS, WIDTH, SHARES>;
    static constexpr bool BF16 = IS_BFLOAT<Out>;

    // Rows of the sums are columns of C.
    static __device__ __forceinline__ void storeTransposed(const WideParams &params, uint32_t boxesAt, Acc (&sum)[MMAS][WIDTH / 2], int row,
                                                           int col, int &box) {
        const auto &p = static_cast<const FusedWideParams &>(params);
        const int first = row + threadIdx.x / 32 % 4 * BOX_ROWS + threadIdx.x % 32 / 4;
#pragma unroll
        for (int mma = 0; mma < MMAS; ++mma) {
            const float upper = biasAt<BF16>(p.epilogue, first + mma * 64, p.rows);
            const float lower = biasAt<BF16>(p.epilogue, first + mma * 64 + 8, p.rows);
#pragma unroll
            for (int i = 0; i < WIDTH / 2; ++i) sum[mma][i] += i % 4 < 2 ? upper : lower;
            activate(p.epilogue, sum[mma]);
        }
        Plain::storeTransposed(p, boxesAt, sum, row, col, box);
    }

    static __device__ __forceinline__ void store(const WideParams &params, uint32_t boxesAt, Acc (&sum)[MMAS][WIDTH / 2], int row, int col,
                                                 int &box) {
        const auto &p = static_cast<const FusedWideParams &>(params);
        // A thread needs two of every eight columns. The lanes of a warp read a pair each and pass it on: read by each thread, 224
        // columns took 5000 cycles.
        constexpr int READS = (WIDTH + 63) / 64;
        const int lane = threadIdx.x % 32;
        uint32_t pairs[READS];
#pragma unroll
        for (int i = 0; i < READS; ++i) {
            const int at = col + 64 * i + 2 * lane; // odd where the tile ends with an odd number of columns
            pairs[i] = at % 2 == 0 ? biasPair(p.epilogue, at, p.cols)
                                   : packPair<BF16>(biasAt<BF16>(p.epilogue, at, p.cols), biasAt<BF16>(p.epilogue, at + 1, p.cols));
        }
#pragma unroll
        for (int j = 0; j < WIDTH / 8; ++j) {
            const uint32_t pair = __shfl_sync(0xffffffff, pairs[j / 8], j % 8 * 4 + lane % 4);
            const float left = fromHalf<BF16>(pair & 0xffff), right = fromHalf<BF16>(pair >> 16);
#pragma unroll
            for (int mma = 0; mma < MMAS; ++mma) {
                sum[mma][4 * j] += left;
                sum[mma][4 * j + 1] += right;
                sum[mma][4 * j + 2] += left;
                sum[mma][4 * j + 3] += right;
            }
        }
#pragma unroll
        for (int mma = 0; mma < MMAS; ++mma) activate(p.epilogue, sum[mma]);
        Plain::store(p, boxesAt, sum, row, col, box);
    }
};

} // namespace

#define GA_HOPPER_EPILOGUE_AS(NAME, SUFFIX, T, OUT, BM, BN, TRANSPOSED, TURNS)                                      \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) ga_hopper_epilogue_##NAME##_##BM##x##BN##SUFFIX( \
        const __grid_constant__ FusedWideParams p) {                                                           \
        Hopper<Operand::T, Fused<OUT>, BM, BN, TRANSPOSED, TURNS>::run(p);                                       \
    }
#define GA_HOPPER_EPILOGUE(NAME, T, OUT, BM, BN) GA_HOPPER_EPILOGUE_AS(NAME, , T, OUT, BM, BN, false, false)
#define GA_HOPPER_EPILOGUE_T(NAME, T, OUT, BM, BN) GA_HOPPER_EPILOGUE_AS(NAME, t, T, OUT, BM, BN, true, false)
#define GA_HOPPER_EPILOGUE_TURNS_T(NAME, T, OUT, BM, BN) GA_HOPPER_EPILOGUE_AS(NAME, t_turns, T, OUT, BM, BN, true, true)
