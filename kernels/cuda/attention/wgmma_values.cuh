// wgmma with A in registers and B stored the other way: D[64,n] += A[64,k]·V[k,n], as
// attention multiplies weights, which it has just computed, with values, whose rows are k.
//
// A is 64×16 of 16-bit elements in four registers. Two sums that a wgmma left next to
// each other make one of them: with d as wgmma.cuh has it, columns 16·i to 16·i+15 are
// the pairs of d[8i] and d[8i+1], [8i+2] and [8i+3], [8i+4] and [8i+5], [8i+6] and [8i+7].
//
// V is as TMA writes it with 128-byte swizzle: boxes of 64 columns, rows of 128 bytes.
#pragma once

#include "wgmma.cuh"

// wgmmaValuesDescriptor describes boxes that lie `box` bytes apart; adding 128 to it moves
// it on by 16 rows. Layout: address, the distance of boxes, that of groups of eight rows
// (in units of 16 bytes), 128-byte swizzle.
__device__ __forceinline__ uint64_t wgmmaValuesDescriptor(uint32_t address, uint32_t box) {
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | static_cast<uint64_t>(box >> 4) << 16 | 64ull << 32 | 1ull << 62;
}

template <Operand T, int N>
struct WgmmaValues;

// clang-format off
#define GA_WGMMA_VALUES(T, N, NAME, A, B)                                                                  \
    template <>                                                                                            \
    struct WgmmaValues<Operand::T, N> {                                                                    \
        static __device__ __forceinline__ void add(float (&d)[N / 2], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint64_t b) { \
            asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"                                        \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" GA_REGS_##N "}, " A ", " B ", p, 1, 1, 1;\n}" \
                         : GA_OUTS_##N("+f", d)                                                            \
                         : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b));                                    \
        }                                                                                                  \
    };

GA_WGMMA_VALUES(FP16, 64, "f16", "{%32,%33,%34,%35}", "%36")
GA_WGMMA_VALUES(BF16, 64, "bf16", "{%32,%33,%34,%35}", "%36")
GA_WGMMA_VALUES(FP16, 128, "f16", "{%64,%65,%66,%67}", "%68")
GA_WGMMA_VALUES(BF16, 128, "bf16", "{%64,%65,%66,%67}", "%68")

// clang-format on
#undef GA_WGMMA_VALUES
