// arch: 75 80 86 89 90a ptx90 100 120
//
// epilogue: a bias and an activation as a pass over a product, then a residual or the product with another half of the columns.
//
// A thread takes 16 bytes of a row of C at a time, or what is left of the row. Where rows are no multiples of 16 bytes, it takes
// them element by element. Blocks are a few for each multiprocessor and go round, so that loads of one piece are in flight
// while the one before is computed.

#include "epilogue.cuh"
#include "vector.cuh"

namespace ga_epilogue {

struct Params {
    void *c;             // contiguous, of `columns`
    const void *product; // may be c
    long long count;     // of pieces
    long long ld;        // of the product, in elements
    int columns;
    int pieces;          // of a row
    int up;              // columns between a gate and what it multiplies, 0 without gates
    int vector;          // all rows and halves of the product and C begin at multiples of 16 bytes
    Epilogue epilogue;
};

// sums reads a piece of the product and adds the bias. left is how many columns of C there are from the piece on.
template <class T>
__device__ __forceinline__ Floats<T> sums(const Params &p, long long row, int column, int left) {
    Floats<T> v = unpack<T>(loadPiece(static_cast<const T *>(p.product) + row * p.ld + column, left, p.vector));
    if (p.epilogue.bias != nullptr) {
        const Floats<T> b = unpack<T>(loadPiece(static_cast<const T *>(p.epilogue.bias) + column, left, p.vector));
#pragma unroll
        for (int i = 0; i < Floats<T>::N; i++) v.v[i] += b.v[i];
    }
    return v;
}

template <class T>
__device__ __forceinline__ void run(const Params &p) {
    constexpr int N = Floats<T>::N;
    dependentsMayStart();
    waitForPredecessor();
    const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
    for (long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; at < p.count; at += stride) {
        const long long row = at / p.pieces;
        const int column = static_cast<int>(at - row * p.pieces) * N, left = p.columns - column;
        Floats<T> v = sums<T>(p, row, column, left);
        activate(p.epilogue, v.v);
        if (p.up > 0) {
            const Floats<T> u = sums<T>(p, row, p.up + column, left);
#pragma unroll
            for (int i = 0; i < N; i++) v.v[i] *= u.v[i];
        }
        const long long here = row * p.columns + column;
        if (p.epilogue.residual != nullptr) {
            const T *from = static_cast<const T *>(p.epilogue.residual) + here;
            const Floats<T> r = unpack<T>(loadPiece(from, left, p.vector && p.epilogue.whole));
#pragma unroll
            for (int i = 0; i < N; i++) v.v[i] += r.v[i];
        }
        storePiece(static_cast<T *>(p.c) + here, pack<T>(v), left, p.vector);
    }
}

} // namespace ga_epilogue

#define GA_EPILOGUE(NAME, T)                                                                                     \
    extern "C" __global__ void __launch_bounds__(256) ga_epilogue_##NAME(const __grid_constant__ ga_epilogue::Params p) { \
        ga_epilogue::run<T>(p);                                                                                  \
    }

GA_EPILOGUE(fp32, float)
GA_EPILOGUE(fp16, __half)
#ifdef GA_HAS_BF16
GA_EPILOGUE(bf16, __nv_bfloat16)
#endif
