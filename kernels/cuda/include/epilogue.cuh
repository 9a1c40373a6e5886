// What is done to the sums of a product before they are written: a bias, then an activation, then a residual. The Go side is
// epilogue.go of package support.
#pragma once

#include "pair.cuh"

// Epilogue is the same for all threads of a launch. GELU, its approximation by tanh and SiLU are one formula with other
// coefficients, so that a kernel has the code once: x ÷ (1 + 2^-(x·P(x²))). As operands of the instructions, the
// coefficients need no registers.
struct Epilogue {
    const void *bias;     // of each column of C, in the type of C, or null
    const void *residual; // is added, in the shape and type of C, or null
    float p[6];           // of P, the constant first
    float most;           // of x²: beyond it the quotient is 0 or 1 in fp32
    int form;             // ACTIVATION_…
    int whole;            // the residual's rows begin at multiples of 16 bytes
};

enum { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_SIGMOID };

__device__ __forceinline__ float relu(float x) { return x < 0 ? 0 : x; } // NaN stays NaN

__device__ __forceinline__ float sigmoidUnit(const Epilogue &e, float x) {
    const float t = fminf(x * x, e.most);
    float p = e.p[5];
#pragma unroll
    for (int i = 4; i >= 0; i--) p = fmaf(p, t, e.p[i]);
    float power, quotient;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-x * p));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(1 + power));
    return x * quotient;
}

// activate applies an activation to values in registers. The branches are the same for all threads.
template <int COUNT>
__device__ __forceinline__ void activate(const Epilogue &e, float (&x)[COUNT]) {
    if (e.form == ACTIVATION_RELU) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) x[i] = relu(x[i]);
    } else if (e.form == ACTIVATION_SIGMOID) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) x[i] = sigmoidUnit(e, x[i]);
    }
}

template <bool BF16>
__device__ __forceinline__ float fromHalf(unsigned short bits) {
    if constexpr (BF16) return __uint_as_float(static_cast<unsigned>(bits) << 16);
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

// biasAt returns the bias of a column, 0 where there is none. BF16 says which of the types of 16 bits it has.
template <bool BF16>
__device__ __forceinline__ float biasAt(const Epilogue &e, int column, int columns) {
    if (e.bias == nullptr || column >= columns) return 0;
    return fromHalf<BF16>(__ldg(static_cast<const unsigned short *>(e.bias) + column));
}

// biasPair returns the bias of a column and the next one, as two elements of 16 bits. The column is even.
__device__ __forceinline__ unsigned biasPair(const Epilogue &e, int column, int columns) {
    if (e.bias == nullptr || column >= columns) return 0;
    const unsigned short *from = static_cast<const unsigned short *>(e.bias) + column;
    return column + 1 < columns ? __ldg(reinterpret_cast<const unsigned *>(from)) : __ldg(from);
}

// addPairs adds two words of two elements of 16 bits each.
template <bool BF16>
__device__ __forceinline__ unsigned addPairs(unsigned a, unsigned b) {
    return packPair<BF16>(fromHalf<BF16>(a & 0xffff) + fromHalf<BF16>(b & 0xffff), fromHalf<BF16>(a >> 16) + fromHalf<BF16>(b >> 16));
}

// residualPiece reads the eight elements of the residual from one of C on, of which `count` are there. The launch before may have
// written them, so that no cache for constants holds them.
__device__ __forceinline__ uint4 residualPiece(const Epilogue &e, long long at, int count) {
    const unsigned short *from = static_cast<const unsigned short *>(e.residual) + at;
    if (e.whole && count >= 8) return *reinterpret_cast<const uint4 *>(from);
    unsigned words[4] = {};
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < count) words[i / 2] |= static_cast<unsigned>(from[i]) << i % 2 * 16;
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// addPieces adds eight elements of 16 bits.
template <bool BF16>
__device__ __forceinline__ uint4 addPieces(uint4 a, uint4 b) {
    return make_uint4(addPairs<BF16>(a.x, b.x), addPairs<BF16>(a.y, b.y), addPairs<BF16>(a.z, b.z), addPairs<BF16>(a.w, b.w));
}
