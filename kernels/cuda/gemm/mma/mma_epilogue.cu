// arch: 80 ptx90
//
// mma.cu with an epilogue: C = activation(A·Bᵀ + bias), for 8.0 and later. One kernel has all epilogues, which are parameters of the
// launch.
//
// A thread adds two values of the bias for each eight columns to its sums, and applies the activation before it stores them;
// of a split K only the last block does. The tiles are those that fit every GPU. Code for 8.0 runs on 8.6 and 8.9, and
// drivers compile PTX for 9.0 and later.

#define GA_MMA_BEFORE_STORE(PARAMS, SUMS, COLUMN, TYPE) finish(PARAMS, SUMS, COLUMN, TYPE)
#define GA_MMA_BEFORE_PUT(PARAMS, TO, PIECE, TYPE) addResidual(PARAMS, TO, PIECE, TYPE)
#define GA_MMA_ELEMENT(PARAMS, TO, VALUE, TYPE) withResidual(PARAMS, TO, VALUE, TYPE)

#include "epilogue.cuh"
#include "mma_epilogue_tiles.cuh"
#include "mma_kernel.cuh"

namespace ga_mma {

// FusedParams is what a launch is told.
struct FusedParams : Params {
    Epilogue epilogue;
};

// finish applies the epilogue to the sums of a thread, which has pairs of columns of C from first on, eight apart.
template <int ROWS, int COLUMNS, Type T>
__device__ __forceinline__ void finish(const Params& params, float (&acc)[ROWS][COLUMNS][4], int first, Traits<T>) {
    constexpr bool BF16 = T == Type::bf16;
    const auto& p = static_cast<const FusedParams&>(params);
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        const float left = biasAt<BF16>(p.epilogue, first + j * 8, p.n), right = biasAt<BF16>(p.epilogue, first + j * 8 + 1, p.n);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            acc[i][j][0] += left;
            acc[i][j][1] += right;
            acc[i][j][2] += left;
            acc[i][j][3] += right;
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++) activate(p.epilogue, reinterpret_cast<float(&)[COLUMNS * 4]>(acc[i]));
}

// added adds the residual to eight elements of C, which is contiguous, at an address.
template <bool BF16>
__device__ __noinline__ float4 added(const FusedParams& p, const char* to, float4 v) {
    const uint4 bits = make_uint4(__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w));
    const uint4 sum = addPieces<BF16>(bits, residualPiece(p.epilogue, (to - p.c) / 2, 8));
    return make_float4(__uint_as_float(sum.x), __uint_as_float(sum.y), __uint_as_float(sum.z), __uint_as_float(sum.w));
}

template <Type T>
__device__ __forceinline__ void addResidual(const Params& params, const char* to, float4& v, Traits<T>) {
    const auto& p = static_cast<const FusedParams&>(params);
    if (p.epilogue.residual != nullptr) v = added<T == Type::bf16>(p, to, v);
}

// withResidual is addResidual for one element.
template <Type T>
__device__ __forceinline__ unsigned short withResidual(const Params& params, const char* to, unsigned short v, Traits<T>) {
    const auto& p = static_cast<const FusedParams&>(params);
    if (p.epilogue.residual == nullptr) return v;
    const unsigned short added = static_cast<const unsigned short*>(p.epilogue.residual)[(to - p.c) / 2];
    return static_cast<unsigned short>(addPairs<T == Type::bf16>(v, added));
}

} // namespace ga_mma

#define GA_MMA_EPILOGUE(TYPE, BM, BN, WARPSM, WARPSN, ROW, STAGES, BLOCKS)                                      \
    extern "C" __global__ void __launch_bounds__(WARPSM * WARPSN * 32, BLOCKS)                                 \
        ga_mma_epilogue_##TYPE##_##BM##x##BN##_s##STAGES(const __grid_constant__ ga_mma::FusedParams p) {      \
        using namespace ga_mma;                                                                                \
        extern __shared__ __align__(128) char shared[];                                                        \
        Kernel<Type::TYPE, BM, BN, WARPSM, WARPSN, ROW, STAGES> kernel;                                        \
        kernel.run(p, shared);                                                                                 \
    }

GA_MMA_EPILOGUE_TILES(GA_MMA_EPILOGUE, fp16)
GA_MMA_EPILOGUE_TILES(GA_MMA_EPILOGUE, bf16)
