// The contents of operands, bit for bit those of the CPU's buffers (kernels/cpu/buffer.c).
//
// Element i has three 32-bit words, each a mix of the counter and a key derived from
// the seed and the upper half of i. Normal values are the sum of the six 16-bit halves
// (Irwin-Hall), centred and scaled to variance 1. Everything is integer arithmetic and
// one or two roundings that are spelt out, so that no compiler can fuse them.
//
// This header is C as well as CUDA C++: a test compiles it for the host and holds it
// against the CPU's own generator.
#pragma once

#ifdef __CUDACC__
#define FILL_FUNCTION __device__ __forceinline__
#define FILL_MULTIPLY(a, b) __fmul_rn(a, b)
#define FILL_ADD(a, b) __fadd_rn(a, b)
#define FILL_BITS(f) __float_as_uint(f)
#define FILL_FLOAT(u) __uint_as_float(u)
#else
#include <stdint.h>
#include <string.h>
#define FILL_FUNCTION static inline
#define FILL_MULTIPLY(a, b) ((a) * (b))
#define FILL_ADD(a, b) ((a) + (b))
static inline uint32_t FILL_BITS(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float FILL_FLOAT(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
#endif

// The codes of support.go.
enum FillDType { FILL_FP32, FILL_TF32, FILL_FP16, FILL_BF16, FILL_FP8, FILL_INT8 };
enum FillDistribution { FILL_NORMAL, FILL_INTEGERS };

typedef struct {
    uint32_t k0, k1, k2;
} FillKeys;

FILL_FUNCTION uint32_t fillMix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

FILL_FUNCTION uint64_t fillMix64(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// fillKeys are those of the 2^32 elements whose index has the upper half `upper`.
FILL_FUNCTION FillKeys fillKeys(uint64_t seed, uint32_t upper) {
    uint64_t a = fillMix64(seed ^ fillMix64(upper)), b = fillMix64(a);
    FillKeys k;
    k.k0 = (uint32_t)a;
    k.k1 = (uint32_t)(a >> 32);
    k.k2 = (uint32_t)b;
    return k;
}

// The sum of six uniform 16-bit numbers has this mean, and 1/sigma = 1/sqrt(6·(2^32-1)/12).
#define FILL_MEAN (3 * 65535)
#define FILL_SCALE 2.1579186e-5f

FILL_FUNCTION int32_t fillCentred(uint32_t i, FillKeys k) {
    uint32_t a = fillMix(i ^ k.k0), b = fillMix(a + k.k1), c = fillMix(b + k.k2);
    return (int32_t)((a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16) + (c & 0xffff) + (c >> 16)) - FILL_MEAN;
}

FILL_FUNCTION int32_t fillInteger(uint32_t i, FillKeys k) {
    return (int32_t)(((fillMix(i ^ k.k0) >> 16) * 9u) >> 16) - 4;
}

// The encoders round finite values within the format's range to nearest even. They
// choose by a mask where a compiler could make a branch.

FILL_FUNCTION uint32_t fillTF32(float f) {
    uint32_t u = FILL_BITS(f);
    return (u + 0xfffu + ((u >> 13) & 1u)) & ~0x1fffu;
}

FILL_FUNCTION uint32_t fillFP16(float f) {
    uint32_t u = FILL_BITS(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Adding 0.5 lines the last bit up with the smallest denormal, 2^-24.
    uint32_t denormal = FILL_BITS(FILL_ADD(FILL_FLOAT(magnitude), 0.5f)) - 0x3f000000u;
    uint32_t small = 0u - (uint32_t)(magnitude < (113u << 23));
    return sign | (denormal & small) | (normal & ~small);
}

FILL_FUNCTION uint32_t fillBF16(float f) {
    uint32_t u = FILL_BITS(f);
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

FILL_FUNCTION uint32_t fillFP8(float f) {
    uint32_t u = FILL_BITS(f), sign = (u >> 24) & 0x80u, magnitude = u & 0x7fffffffu;
    uint32_t normal = (magnitude - (120u << 23) + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20;
    // Adding 2^14 lines the last bit up with the smallest denormal, 2^-9.
    uint32_t denormal = FILL_BITS(FILL_ADD(FILL_FLOAT(magnitude), 16384.0f)) - 0x46800000u;
    uint32_t small = 0u - (uint32_t)(magnitude < (121u << 23));
    return sign | (denormal & small) | (normal & ~small);
}

FILL_FUNCTION uint32_t fillINT8(uint32_t i, FillKeys k, int distribution) {
    if (distribution == FILL_INTEGERS) return (uint32_t)fillInteger(i, k) & 0xffu;
    float f = FILL_MULTIPLY((float)fillCentred(i, k), FILL_SCALE * 32.0f);
    int32_t r = (int32_t)FILL_ADD(f, f < 0 ? -0.5f : 0.5f);
    r = r > 127 ? 127 : r < -127 ? -127 : r;
    return (uint32_t)r & 0xffu;
}

// fillElement is element i, whose lower half is given, in the low bits of a word.
FILL_FUNCTION uint32_t fillElement(uint32_t i, FillKeys k, int dtype, int distribution) {
    if (dtype == FILL_INT8) return fillINT8(i, k, distribution);
    float f = distribution == FILL_INTEGERS ? (float)fillInteger(i, k)
                                            : FILL_MULTIPLY((float)fillCentred(i, k), FILL_SCALE);
    switch (dtype) {
        case FILL_TF32: return fillTF32(f);
        case FILL_FP16: return fillFP16(f);
        case FILL_BF16: return fillBF16(f);
        case FILL_FP8: return fillFP8(f);
        default: return FILL_BITS(f);
    }
}
