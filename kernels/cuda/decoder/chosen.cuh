// The choice of the experts that a row goes through.
#pragma once

#include "integers.cuh"

// Chosen is one of them, as the choice leaves it for the products. experts.go has the same layout.
struct Chosen {
    uint64_t units, outputs; // addresses of the weights of both products
    float share;
    int32_t expert;
};

__device__ __forceinline__ float warpSum(float v) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(0xffffffff, v, i);
    return v;
}

__device__ __forceinline__ uint32_t warpLargest(uint32_t v) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v = max(v, __shfl_xor_sync(0xffffffff, v, i));
    return v;
}

// rank orders numbers by value from 1 on, NaN below all others. -0 equals 0.
__device__ __forceinline__ uint32_t rank(float v) {
    const uint32_t bits = __float_as_uint(v + 0.f);
    return 1 + (v != v ? 0 : bits ^ (bits >> 31 != 0 ? 0xffffffffu : 0x80000000u));
}

// Choice is a warp's: lane i has the i-th expert.
struct Choice {
    int expert = 0;
    float share = 0;

    // The `count` largest logits of the first `experts` lanes: of equal ones the first, with shares that are
    // the softmax over all experts divided by its sum over the chosen.
    __device__ __forceinline__ Choice(float logit, int experts, int count) {
        const int lane = threadIdx.x % 32;
        uint32_t left = lane < experts ? rank(logit) : 0;
        float top = 0, all = 0, sum = 0;
#pragma unroll 1
        for (int i = 0; i < count; i++) {
            const int who = __ffs(__ballot_sync(0xffffffff, left == warpLargest(left))) - 1;
            const float value = __shfl_sync(0xffffffff, logit, who);
            if (i == 0) {
                top = value;
                all = warpSum(lane < experts ? expf(logit - top) : 0);
            }
            const float of = expf(value - top) / all;
            sum += of;
            if (lane == i) share = of, expert = who;
            if (lane == who) left = 0;
        }
        share /= sum;
    }
};
