// The product of a step of mma.cu, by the instructions that an architecture has.
#pragma once

#include "ampere.cuh"
#include "pair.cuh"

namespace ga_mma {

enum class Type { fp16, bf16, tf32, int8, fp8 };

template <Type T>
struct Traits {
    using Acc = float;
    static constexpr int outSize = 2;
};
template <>
struct Traits<Type::tf32> {
    using Acc = float;
    static constexpr int outSize = 4;
};
template <>
struct Traits<Type::int8> {
    using Acc = int;
    static constexpr int outSize = 4;
};

// multiplyHalf adds a 16×8 product of fp16, 16 bytes deep, on 7.5. The registers of a product of
// 8.0, 32 bytes deep, are those of its first half and then of its second.
__device__ __forceinline__ void multiplyHalf(float (&d)[4], unsigned a0, unsigned a1, unsigned b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// multiplyQuarter adds an 8×8 product of int8, 16 bytes deep, on 7.5: of one half of the rows and one half of K.
__device__ __forceinline__ void multiplyQuarter(int& d0, int& d1, unsigned a, unsigned b) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d0), "+r"(d1) : "r"(a), "r"(b));
}

// widen is the exact fp16 values of two fp8: elements 0 and 1 of a register, or 2
// and 3.
__device__ __forceinline__ unsigned widen(unsigned four, int upper) {
    unsigned two = 0;
#if __CUDA_ARCH__ >= 890
    const unsigned short pair = upper ? four >> 16 : four & 0xffff;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(two) : "h"(pair));
#endif
    return two;
}

// multiply adds a 16×8 product, 32 bytes deep.
#if __CUDA_ARCH__ >= 800
template <Type T>
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    if constexpr (T == Type::fp16) {
        mmaFP16(d, a[0], a[1], a[2], a[3], b0, b1);
    } else if constexpr (T == Type::bf16) {
        mmaBF16(d, a[0], a[1], a[2], a[3], b0, b1);
    } else if constexpr (T == Type::tf32) {
        mmaTF32(d, a[0], a[1], a[2], a[3], b0, b1);
    } else {
#if __CUDA_ARCH__ == 890
        mmaE4M3(d, a[0], a[1], a[2], a[3], b0, b1);
#else
        // Tensor cores of 9.0 have no mma.sync for fp8: ptxas emulates it, and that
        // of CUDA 12.4 drops the accumulator. Widening to fp16 here is exact. The
        // order of K within a unit is the same for A and B, which is all it takes.
#pragma unroll
        for (int h = 0; h < 2; h++)
            mmaFP16(d, widen(a[0], h), widen(a[1], h), widen(a[2], h), widen(a[3], h), widen(b0, h), widen(b1, h));
#endif
    }
}

template <Type T>
__device__ __forceinline__ void multiply(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    mmaS8(d, a[0], a[1], a[2], a[3], b0, b1);
}
#else
template <Type T>
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    multiplyHalf(d, a[0], a[1], b0);
    multiplyHalf(d, a[2], a[3], b1);
}

template <Type T>
__device__ __forceinline__ void multiply(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    multiplyQuarter(d[0], d[1], a[0], b0);
    multiplyQuarter(d[2], d[3], a[1], b0);
    multiplyQuarter(d[0], d[1], a[2], b1);
    multiplyQuarter(d[2], d[3], a[3], b1);
}
#endif

// packOutputs rounds two sums to the 16-bit type, the first to the lower half of the word.
template <bool BF16>
__device__ __forceinline__ unsigned packOutputs(float low, float high) {
#if __CUDA_ARCH__ >= 800
    return packPair<BF16>(low, high);
#else
    unsigned r;
    asm("{.reg .f16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h};}" : "=r"(r) : "f"(low), "f"(high));
    return r;
#endif
}

} // namespace ga_mma
