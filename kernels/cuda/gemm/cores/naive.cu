// naive: C = A·B, one thread an output. The rung that everything else is held against:
// nothing is shared but what caches share by themselves.
//
// arch: 75 80 86 89 90a ptx90 100 120
//
// Block: 16×16 threads, a thread for each output of a 16×16 tile; no shared memory.
// Each step of K takes one element of A and one of B and does one multiply-add: 2 FLOP
// on 2·size bytes of L1. A warp covers 2 rows and 16 columns, so a load of B touches 16
// rows of packed weights, 16 cache lines, and that many cycles pass for each step.
//
// Operands: A is row-major M×K with lda, B packed weights, N rows of K with ldb, C
// row-major M×N with ldc; nothing needs an alignment beyond its element's.

#include "numeric.cuh"

namespace ga_naive {

constexpr int TILE = 16;

struct NaiveParams {
    const void* a;
    const void* b;
    void* c;
    int64_t lda, ldb, ldc;  // in elements
    int32_t m, n, k;
    int32_t tilesN;  // of 16 columns; the grid is tilesM·tilesN
};

template <class T>
__device__ __forceinline__ void naive(const NaiveParams& p) {
    using Acc = typename Numeric<T>::Acc;
    using Out = typename Numeric<T>::Out;
    const int row = blockIdx.x / p.tilesN * TILE + threadIdx.x / TILE;
    const int column = blockIdx.x % p.tilesN * TILE + threadIdx.x % TILE;
    if (row >= p.m || column >= p.n) return;
    const T* a = static_cast<const T*>(p.a) + row * p.lda;
    const T* b = static_cast<const T*>(p.b) + column * p.ldb;
    Acc sum = 0;
#pragma unroll 4
    for (int k = 0; k < p.k; k++) sum += widen(a[k]) * widen(b[k]);
    static_cast<Out*>(p.c)[row * p.ldc + column] = narrow<Out>(sum);
}

#define NAIVE(name, T)                                                                                             \
    extern "C" __global__ void __launch_bounds__(TILE* TILE) ga_naive_##name(const __grid_constant__ NaiveParams p) { \
        naive<T>(p);                                                                                               \
    }

NAIVE(fp32, float)
NAIVE(fp16, __half)
NAIVE(int8, int8_t)
#ifdef GA_HAS_BF16
NAIVE(bf16, __nv_bfloat16)
#endif
#ifdef GA_HAS_FP8
NAIVE(fp8, __nv_fp8_e4m3)
#endif

}  // namespace ga_naive
