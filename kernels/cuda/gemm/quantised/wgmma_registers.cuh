// wgmma with A in registers: D[64,n] += A[64,16]·Bᵀ[n,16], B in shared memory as wgmma.cuh has it.
//
// A is 64×16 of 16-bit elements in four registers of two elements each. Thread t of the warpgroup
// holds, with r = 16·(t/32) + (t%32)/4 and k = 2·(t%4): a0 at (r, k) and (r, k+1), a1 at (r+8, k),
// a2 at (r, k+8), a3 at (r+8, k+8), each with its neighbour along K.
#pragma once

#include "wgmma.cuh"

template <Operand T, int N>
struct WgmmaRegisters;

// clang-format off
#define GA_WGMMA_REGISTERS(T, N, NAME, A, B)                                                               \
    template <>                                                                                            \
    struct WgmmaRegisters<Operand::T, N> {                                                                 \
        static __device__ __forceinline__ void add(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b) { \
            asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"                                        \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME "." NAME " {" GA_REGS_##N "}, " A ", " B ", p, 1, 1, 0;\n}" \
                         : GA_OUTS_##N("+f", d)                                                            \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                            \
        }                                                                                                  \
    };
#define GA_WGMMA_REGISTERS_HALVES(N, A, B)       \
    GA_WGMMA_REGISTERS(FP16, N, "f16", A, B)     \
    GA_WGMMA_REGISTERS(BF16, N, "bf16", A, B)

GA_WGMMA_REGISTERS_HALVES(8, "{%4,%5,%6,%7}", "%8")
GA_WGMMA_REGISTERS_HALVES(16, "{%8,%9,%10,%11}", "%12")
GA_WGMMA_REGISTERS_HALVES(24, "{%12,%13,%14,%15}", "%16")
GA_WGMMA_REGISTERS_HALVES(32, "{%16,%17,%18,%19}", "%20")
GA_WGMMA_REGISTERS_HALVES(48, "{%24,%25,%26,%27}", "%28")
GA_WGMMA_REGISTERS_HALVES(64, "{%32,%33,%34,%35}", "%36")
GA_WGMMA_REGISTERS_HALVES(96, "{%48,%49,%50,%51}", "%52")
GA_WGMMA_REGISTERS_HALVES(128, "{%64,%65,%66,%67}", "%68")
GA_WGMMA_REGISTERS_HALVES(192, "{%96,%97,%98,%99}", "%100")
GA_WGMMA_REGISTERS_HALVES(256, "{%128,%129,%130,%131}", "%132")

// clang-format on
#undef GA_WGMMA_REGISTERS
#undef GA_WGMMA_REGISTERS_HALVES
