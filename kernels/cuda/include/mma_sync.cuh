// mma.sync on compute capability 8.0 and up: d += a·b, with 16 rows of a, 8 columns of b and 32
// bytes of K, as fragments of a warp.
#pragma once

#define GA_MMA_SYNC(NAME, SHAPE, SUM, LETTER)                                                                              \
    __device__ __forceinline__ void NAME(SUM(&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,      \
                                         unsigned b1) {                                                                    \
        asm("mma.sync.aligned." SHAPE " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                             \
            : "+" LETTER(d[0]), "+" LETTER(d[1]), "+" LETTER(d[2]), "+" LETTER(d[3])                                       \
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                                       \
    }

GA_MMA_SYNC(mmaFP16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f")
GA_MMA_SYNC(mmaBF16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f")
GA_MMA_SYNC(mmaTF32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f")
GA_MMA_SYNC(mmaE4M3, "m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f") // on 8.9
GA_MMA_SYNC(mmaS8, "m16n8k32.row.col.s32.s8.s8.s32", int, "r")
#undef GA_MMA_SYNC
