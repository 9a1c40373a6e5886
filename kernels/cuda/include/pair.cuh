// Two sums as one word of 16-bit elements.
#pragma once

// packPair rounds two numbers to bf16 or fp16, the first to the lower half of the word.
template <bool BF16>
__device__ __forceinline__ unsigned packPair(float low, float high) {
    unsigned r;
    if constexpr (BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
