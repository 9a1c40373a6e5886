// wgmma: D[64,n] += A[64,k]·Bᵀ[n,k], issued by a warpgroup (four warps, the first a
// multiple of 4), both operands in shared memory, the sums in registers.
//
// A and B are K-major tiles as the TMA writes them with 128-byte swizzle: rows of 128
// bytes, 1024-byte aligned. One instruction takes 32 bytes of K, whatever the type.
//
// Thread t of the warpgroup holds, for j = 0 … n/8-1, with r = 16·(t/32) + (t%32)/4 and
// c = 8·j + 2·(t%4): d[4j] and d[4j+1] at (r, c) and (r, c+1), d[4j+2] and d[4j+3] at
// (r+8, c) and (r+8, c+1).
#pragma once

#include "ptx.cuh"

// Operand is the type of A and B.
enum class Operand { FP16, BF16, TF32, E4M3, S8 };

template <Operand T>
struct Sum {
    using type = float;
};
template <>
struct Sum<Operand::S8> {
    using type = int;
};

// wgmmaDescriptor describes the tile at a shared address; adding 2 to it moves it on by
// 32 bytes of K. Layout: address, then the distance of groups of eight rows (both in
// units of 16 bytes), then 128-byte swizzle. The leading offset has no meaning for it.
__device__ __forceinline__ uint64_t wgmmaDescriptor(uint32_t address) {
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// wgmmaFence comes before the first wgmma, and before one whose registers were touched.
__device__ __forceinline__ void wgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// wgmmaWait waits until at most N committed groups are in flight.
template <int N>
__device__ __forceinline__ void wgmmaWait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Wgmma<T, N>::add issues one instruction. accumulate = 0 overwrites d. Integers exist
// at n of 8, 24 and the multiples of 16.
template <Operand T, int N>
struct Wgmma;

// The lists that follow spell out registers: inline assembly takes no arrays.
// clang-format off
#define GA_REGS_8 "%0,%1,%2,%3"
#define GA_REGS_16 GA_REGS_8 "," "%4,%5,%6,%7"
#define GA_REGS_24 GA_REGS_16 "," "%8,%9,%10,%11"
#define GA_REGS_32 GA_REGS_24 "," "%12,%13,%14,%15"
#define GA_REGS_40 GA_REGS_32 "," "%16,%17,%18,%19"
#define GA_REGS_48 GA_REGS_40 "," "%20,%21,%22,%23"
#define GA_REGS_56 GA_REGS_48 "," "%24,%25,%26,%27"
#define GA_REGS_64 GA_REGS_56 "," "%28,%29,%30,%31"
#define GA_REGS_72 GA_REGS_64 "," "%32,%33,%34,%35"
#define GA_REGS_80 GA_REGS_72 "," "%36,%37,%38,%39"
#define GA_REGS_88 GA_REGS_80 "," "%40,%41,%42,%43"
#define GA_REGS_96 GA_REGS_88 "," "%44,%45,%46,%47"
#define GA_REGS_104 GA_REGS_96 "," "%48,%49,%50,%51"
#define GA_REGS_112 GA_REGS_104 "," "%52,%53,%54,%55"
#define GA_REGS_120 GA_REGS_112 "," "%56,%57,%58,%59"
#define GA_REGS_128 GA_REGS_120 "," "%60,%61,%62,%63"
#define GA_REGS_136 GA_REGS_128 "," "%64,%65,%66,%67"
#define GA_REGS_144 GA_REGS_136 "," "%68,%69,%70,%71"
#define GA_REGS_152 GA_REGS_144 "," "%72,%73,%74,%75"
#define GA_REGS_160 GA_REGS_152 "," "%76,%77,%78,%79"
#define GA_REGS_168 GA_REGS_160 "," "%80,%81,%82,%83"
#define GA_REGS_176 GA_REGS_168 "," "%84,%85,%86,%87"
#define GA_REGS_184 GA_REGS_176 "," "%88,%89,%90,%91"
#define GA_REGS_192 GA_REGS_184 "," "%92,%93,%94,%95"
#define GA_REGS_200 GA_REGS_192 "," "%96,%97,%98,%99"
#define GA_REGS_208 GA_REGS_200 "," "%100,%101,%102,%103"
#define GA_REGS_216 GA_REGS_208 "," "%104,%105,%106,%107"
#define GA_REGS_224 GA_REGS_216 "," "%108,%109,%110,%111"
#define GA_REGS_232 GA_REGS_224 "," "%112,%113,%114,%115"
#define GA_REGS_240 GA_REGS_232 "," "%116,%117,%118,%119"
#define GA_REGS_248 GA_REGS_240 "," "%120,%121,%122,%123"
#define GA_REGS_256 GA_REGS_248 "," "%124,%125,%126,%127"

#define GA_OUTS_8(c, d) c(d[0]), c(d[1]), c(d[2]), c(d[3])
#define GA_OUTS_16(c, d) GA_OUTS_8(c, d), c(d[4]), c(d[5]), c(d[6]), c(d[7])
#define GA_OUTS_24(c, d) GA_OUTS_16(c, d), c(d[8]), c(d[9]), c(d[10]), c(d[11])
#define GA_OUTS_32(c, d) GA_OUTS_24(c, d), c(d[12]), c(d[13]), c(d[14]), c(d[15])
#define GA_OUTS_40(c, d) GA_OUTS_32(c, d), c(d[16]), c(d[17]), c(d[18]), c(d[19])
#define GA_OUTS_48(c, d) GA_OUTS_40(c, d), c(d[20]), c(d[21]), c(d[22]), c(d[23])
#define GA_OUTS_56(c, d) GA_OUTS_48(c, d), c(d[24]), c(d[25]), c(d[26]), c(d[27])
#define GA_OUTS_64(c, d) GA_OUTS_56(c, d), c(d[28]), c(d[29]), c(d[30]), c(d[31])
#define GA_OUTS_72(c, d) GA_OUTS_64(c, d), c(d[32]), c(d[33]), c(d[34]), c(d[35])
#define GA_OUTS_80(c, d) GA_OUTS_72(c, d), c(d[36]), c(d[37]), c(d[38]), c(d[39])
#define GA_OUTS_88(c, d) GA_OUTS_80(c, d), c(d[40]), c(d[41]), c(d[42]), c(d[43])
#define GA_OUTS_96(c, d) GA_OUTS_88(c, d), c(d[44]), c(d[45]), c(d[46]), c(d[47])
#define GA_OUTS_104(c, d) GA_OUTS_96(c, d), c(d[48]), c(d[49]), c(d[50]), c(d[51])
#define GA_OUTS_112(c, d) GA_OUTS_104(c, d), c(d[52]), c(d[53]), c(d[54]), c(d[55])
#define GA_OUTS_120(c, d) GA_OUTS_112(c, d), c(d[56]), c(d[57]), c(d[58]), c(d[59])
#define GA_OUTS_128(c, d) GA_OUTS_120(c, d), c(d[60]), c(d[61]), c(d[62]), c(d[63])
#define GA_OUTS_136(c, d) GA_OUTS_128(c, d), c(d[64]), c(d[65]), c(d[66]), c(d[67])
#define GA_OUTS_144(c, d) GA_OUTS_136(c, d), c(d[68]), c(d[69]), c(d[70]), c(d[71])
#define GA_OUTS_152(c, d) GA_OUTS_144(c, d), c(d[72]), c(d[73]), c(d[74]), c(d[75])
#define GA_OUTS_160(c, d) GA_OUTS_152(c, d), c(d[76]), c(d[77]), c(d[78]), c(d[79])
#define GA_OUTS_168(c, d) GA_OUTS_160(c, d), c(d[80]), c(d[81]), c(d[82]), c(d[83])
#define GA_OUTS_176(c, d) GA_OUTS_168(c, d), c(d[84]), c(d[85]), c(d[86]), c(d[87])
#define GA_OUTS_184(c, d) GA_OUTS_176(c, d), c(d[88]), c(d[89]), c(d[90]), c(d[91])
#define GA_OUTS_192(c, d) GA_OUTS_184(c, d), c(d[92]), c(d[93]), c(d[94]), c(d[95])
#define GA_OUTS_200(c, d) GA_OUTS_192(c, d), c(d[96]), c(d[97]), c(d[98]), c(d[99])
#define GA_OUTS_208(c, d) GA_OUTS_200(c, d), c(d[100]), c(d[101]), c(d[102]), c(d[103])
#define GA_OUTS_216(c, d) GA_OUTS_208(c, d), c(d[104]), c(d[105]), c(d[106]), c(d[107])
#define GA_OUTS_224(c, d) GA_OUTS_216(c, d), c(d[108]), c(d[109]), c(d[110]), c(d[111])
#define GA_OUTS_232(c, d) GA_OUTS_224(c, d), c(d[112]), c(d[113]), c(d[114]), c(d[115])
#define GA_OUTS_240(c, d) GA_OUTS_232(c, d), c(d[116]), c(d[117]), c(d[118]), c(d[119])
#define GA_OUTS_248(c, d) GA_OUTS_240(c, d), c(d[120]), c(d[121]), c(d[122]), c(d[123])
#define GA_OUTS_256(c, d) GA_OUTS_248(c, d), c(d[124]), c(d[125]), c(d[126]), c(d[127])

#define GA_WGMMA(T, N, TYPE, CONSTRAINT, NAME, TAIL, A, B, P)                                              \
    template <>                                                                                           \
    struct Wgmma<Operand::T, N> {                                                                         \
        static __device__ __forceinline__ void add(TYPE (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) { \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\n"                                   \
                         "wgmma.mma_async.sync.aligned.m64n" #N NAME " {" GA_REGS_##N "}, " A ", " B ", p" TAIL ";\n}" \
                         : GA_OUTS_##N(CONSTRAINT, d)                                                     \
                         : "l"(a), "l"(b), "r"(accumulate));                                              \
        }                                                                                                 \
    };
#define GA_WGMMA_FLOAT(N, A, B, P)                                            \
    GA_WGMMA(FP16, N, float, "+f", "k16.f32.f16.f16", ", 1, 1, 0, 0", A, B, P)  \
    GA_WGMMA(BF16, N, float, "+f", "k16.f32.bf16.bf16", ", 1, 1, 0, 0", A, B, P) \
    GA_WGMMA(TF32, N, float, "+f", "k8.f32.tf32.tf32", ", 1, 1", A, B, P)       \
    GA_WGMMA(E4M3, N, float, "+f", "k32.f32.e4m3.e4m3", ", 1, 1", A, B, P)
#define GA_WGMMA_INT(N, A, B, P) GA_WGMMA(S8, N, int, "+r", "k32.s32.s8.s8", "", A, B, P)

GA_WGMMA_FLOAT(8, "%4", "%5", "%6") GA_WGMMA_INT(8, "%4", "%5", "%6")
GA_WGMMA_FLOAT(16, "%8", "%9", "%10") GA_WGMMA_INT(16, "%8", "%9", "%10")
GA_WGMMA_FLOAT(24, "%12", "%13", "%14") GA_WGMMA_INT(24, "%12", "%13", "%14")
GA_WGMMA_FLOAT(32, "%16", "%17", "%18") GA_WGMMA_INT(32, "%16", "%17", "%18")
GA_WGMMA_FLOAT(40, "%20", "%21", "%22")
GA_WGMMA_FLOAT(48, "%24", "%25", "%26") GA_WGMMA_INT(48, "%24", "%25", "%26")
GA_WGMMA_FLOAT(56, "%28", "%29", "%30")
GA_WGMMA_FLOAT(64, "%32", "%33", "%34") GA_WGMMA_INT(64, "%32", "%33", "%34")
GA_WGMMA_FLOAT(72, "%36", "%37", "%38")
GA_WGMMA_FLOAT(80, "%40", "%41", "%42") GA_WGMMA_INT(80, "%40", "%41", "%42")
GA_WGMMA_FLOAT(88, "%44", "%45", "%46")
GA_WGMMA_FLOAT(96, "%48", "%49", "%50") GA_WGMMA_INT(96, "%48", "%49", "%50")
GA_WGMMA_FLOAT(104, "%52", "%53", "%54")
GA_WGMMA_FLOAT(112, "%56", "%57", "%58") GA_WGMMA_INT(112, "%56", "%57", "%58")
GA_WGMMA_FLOAT(120, "%60", "%61", "%62")
GA_WGMMA_FLOAT(128, "%64", "%65", "%66") GA_WGMMA_INT(128, "%64", "%65", "%66")
GA_WGMMA_FLOAT(136, "%68", "%69", "%70")
GA_WGMMA_FLOAT(144, "%72", "%73", "%74") GA_WGMMA_INT(144, "%72", "%73", "%74")
GA_WGMMA_FLOAT(152, "%76", "%77", "%78")
GA_WGMMA_FLOAT(160, "%80", "%81", "%82") GA_WGMMA_INT(160, "%80", "%81", "%82")
GA_WGMMA_FLOAT(168, "%84", "%85", "%86")
GA_WGMMA_FLOAT(176, "%88", "%89", "%90") GA_WGMMA_INT(176, "%88", "%89", "%90")
GA_WGMMA_FLOAT(184, "%92", "%93", "%94")
GA_WGMMA_FLOAT(192, "%96", "%97", "%98") GA_WGMMA_INT(192, "%96", "%97", "%98")
GA_WGMMA_FLOAT(200, "%100", "%101", "%102")
GA_WGMMA_FLOAT(208, "%104", "%105", "%106") GA_WGMMA_INT(208, "%104", "%105", "%106")
GA_WGMMA_FLOAT(216, "%108", "%109", "%110")
GA_WGMMA_FLOAT(224, "%112", "%113", "%114") GA_WGMMA_INT(224, "%112", "%113", "%114")
GA_WGMMA_FLOAT(232, "%116", "%117", "%118")
GA_WGMMA_FLOAT(240, "%120", "%121", "%122") GA_WGMMA_INT(240, "%120", "%121", "%122")
GA_WGMMA_FLOAT(248, "%124", "%125", "%126")
GA_WGMMA_FLOAT(256, "%128", "%129", "%130") GA_WGMMA_INT(256, "%128", "%129", "%130")

// clang-format on
#undef GA_WGMMA
#undef GA_WGMMA_FLOAT
#undef GA_WGMMA_INT
