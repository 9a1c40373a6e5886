// Quantised weights as quantised_pack.cu lays them out and quantised.cuh reads them, and how
// their codes become operands of wgmma.
//
// A record is 128 rows of weights by 128 of K, one for each consumer warpgroup's 64 rows after
// the other: codes, then scales, then what is subtracted where there are zero points. Codes lie
// as threads want them: of each 64 of K, 16 bytes of each of 128 threads, and for codes of 8 bits
// as many once more. They are four (8 bits: eight) words, one (two) for each 16 of K.
//
// A scale belongs to GROUP weights of a row along K. The scales of rows r and r+8, which a thread
// needs together, share a word: 32 words for each group.
//
// An operand is (code − zero) · scale, rounded once, to the type of the activations.
#pragma once

#include "wgmma.cuh"

namespace quantised {

constexpr int BLOCK_K = 128;     // of a record, and of a step
constexpr int GROUP_ROWS = 64;   // of a consumer
constexpr int SCALE_BYTES = 128; // of a consumer's rows in one group

__device__ __forceinline__ uint4 loadShared16(uint32_t from) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
    return v;
}

__device__ __forceinline__ uint32_t loadShared4(uint32_t from) {
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
    return v;
}

// pickOr is (v & mask) | bits, one instruction.
template <uint32_t MASK, uint32_t BITS>
__device__ __forceinline__ uint32_t pickOr(uint32_t v) {
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(v), "n"(MASK), "n"(BITS));
    return r;
}

// Arithmetic on pairs of the activations' type, each operation rounded to nearest.
template <Operand T>
struct Pairs;
template <>
struct Pairs<Operand::FP16> {
    static __device__ __forceinline__ uint32_t minus(uint32_t a, uint32_t b) {
        uint32_t r;
        asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
        return r;
    }
    static __device__ __forceinline__ uint32_t times(uint32_t a, uint32_t b) {
        uint32_t r;
        asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
        return r;
    }
    static __device__ __forceinline__ uint32_t timesPlus(uint32_t a, uint32_t b, uint32_t c) {
        uint32_t r;
        asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
        return r;
    }
};
// Before 9.0 bf16 has only the combined operation: a·1 − b, and a·b − 0.
template <>
struct Pairs<Operand::BF16> {
    static __device__ __forceinline__ uint32_t minus(uint32_t a, uint32_t b) {
        uint32_t r;
#if __CUDA_ARCH__ >= 900
        asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(0x3f803f80u), "r"(b ^ 0x80008000u));
#endif
        return r;
    }
    static __device__ __forceinline__ uint32_t times(uint32_t a, uint32_t b) {
        uint32_t r;
#if __CUDA_ARCH__ >= 900
        asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
#else
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u));
#endif
        return r;
    }
};

// Group is the scales of a thread's two rows, and what is subtracted of their codes, each twice
// in a word.
struct Group {
    uint32_t scale[2], zero[2];
};

// Codes<T, BITS> makes operands of the words that a thread has of 16 of K: integers as numbers of
// type T with a constant on top, which the subtraction takes away together with the zero point.
// All of it is exact. ZERO[row] is what is subtracted without zero points; a row is that of a0
// and a2 or that of a1 and a3.
template <Operand T, int BITS>
struct Codes;

// Nibbles 0, 4 are a0; 1, 5 a1; 2, 6 a2; 3, 7 a3. Below 0x6400, which is 1024, the mantissa's last bit
// is 1 and the one four bits above it 16.
template <>
struct Codes<Operand::FP16, 4> {
    static constexpr uint32_t ZERO[2] = {0x64086408, 0xd480d480}; // 1024 + 8; −(64 + 8)
    static __device__ __forceinline__ void widen(const uint32_t *words, const Group &g, uint32_t (&a)[4]) {
        const uint32_t low = words[0], high = low >> 8;
        constexpr uint32_t SIXTEENTH = 0x2c002c00;
        using P = Pairs<Operand::FP16>;
        a[0] = P::minus(pickOr<0x000f000f, 0x64006400>(low), g.zero[0]);
        a[1] = P::timesPlus(pickOr<0x00f000f0, 0x64006400>(low), SIXTEENTH, g.zero[1]);
        a[2] = P::minus(pickOr<0x000f000f, 0x64006400>(high), g.zero[0]);
        a[3] = P::timesPlus(pickOr<0x00f000f0, 0x64006400>(high), SIXTEENTH, g.zero[1]);
    }
};

// The same order. A bf16 has room for one nibble only, on top of 0x4300, which is 128.
template <>
struct Codes<Operand::BF16, 4> {
    static constexpr uint32_t ZERO[2] = {0x43084308, 0x43084308}; // 128 + 8
    static __device__ __forceinline__ void widen(const uint32_t *words, const Group &g, uint32_t (&a)[4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[i] = Pairs<Operand::BF16>::minus(pickOr<0x000f000f, 0x43004300>(words[0] >> 4 * i), g.zero[i % 2]);
        }
    }
};

// Bytes 0, 1 of the first word are a0, bytes 2, 3 a1; the second word has a2 and a3.
template <>
struct Codes<Operand::FP16, 8> {
    static constexpr uint32_t ZERO[2] = {0x64806480, 0x64806480}; // 1024 + 128
    static __device__ __forceinline__ void widen(const uint32_t *words, const Group &g, uint32_t (&a)[4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[i] = Pairs<Operand::FP16>::minus(__byte_perm(words[i / 2], 0x64646464, i % 2 ? 0x4342 : 0x4140), g.zero[i % 2]);
        }
    }
};

// A bf16 has no room for a byte beside a constant, an fp32 has: on top of 0x4b000000, which is 2²³.
template <>
struct Codes<Operand::BF16, 8> {
    static constexpr uint32_t ZERO[2] = {128, 128};
    static __device__ __forceinline__ void widen(const uint32_t *words, const Group &g, uint32_t (&a)[4]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float zero = __uint_as_float(pickOr<0x000000ff, 0x4b000000>(g.zero[i % 2]));
            const float low = __uint_as_float(__byte_perm(words[i / 2], 0x4b000000, i % 2 ? 0x7442 : 0x7440)) - zero;
            const float high = __uint_as_float(__byte_perm(words[i / 2], 0x4b000000, i % 2 ? 0x7443 : 0x7441)) - zero;
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(a[i]) : "f"(high), "f"(low));
        }
    }
};

template <Operand T, int BITS, int GROUP, bool ZEROS>
struct Record {
    static constexpr int CODES = GROUP_ROWS * BLOCK_K * BITS / 8; // bytes of a consumer's part
    static constexpr int SCALES = BLOCK_K / GROUP * SCALE_BYTES;
    static constexpr int PART = CODES + SCALES * (ZEROS ? 2 : 1);
    static constexpr int BYTES = 2 * PART;
    static constexpr int WORDS = BITS / 4; // of 16 of K

    // group is the scales and zero points of one group of K, of the words that a thread's rows share.
    static __device__ __forceinline__ Group group(uint32_t scales, uint32_t zeros) {
        Group g;
        g.scale[0] = __byte_perm(scales, 0, 0x1010);
        g.scale[1] = __byte_perm(scales, 0, 0x3232);
        g.zero[0] = ZEROS ? __byte_perm(zeros, 0, 0x1010) : Codes<T, BITS>::ZERO[0];
        g.zero[1] = ZEROS ? __byte_perm(zeros, 0, 0x3232) : Codes<T, BITS>::ZERO[1];
        return g;
    }

    // loadGroup loads it by the thread's place among the scales.
    static __device__ __forceinline__ Group loadGroup(uint32_t scalesAt, int index) {
        uint32_t zeros = 0;
        if constexpr (ZEROS) zeros = loadShared4(scalesAt + SCALES + index * SCALE_BYTES);
        return group(loadShared4(scalesAt + index * SCALE_BYTES), zeros);
    }

    // widen makes the operand of 16 of K of a thread's words.
    static __device__ __forceinline__ void widen(const uint32_t *words, const Group &g, uint32_t (&a)[4]) {
        Codes<T, BITS>::widen(words, g, a);
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = Pairs<T>::times(a[i], g.scale[i % 2]);
    }

    // operands are those of one half of a record's K. g is the group that the half before has
    // left, which is that of this one where groups are as long as a record.
    template <int HALF>
    static __device__ __forceinline__ void operands(uint32_t codesAt, uint32_t scalesAt, Group &g, uint32_t (&a)[4][4]) {
        uint32_t words[4 * WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            const uint4 v = loadShared16(codesAt + (HALF * WORDS + i) * (128 * 16));
            words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            constexpr int PER_GROUP = GROUP / 16;
            if ((HALF * 4 + k) % PER_GROUP == 0) g = loadGroup(scalesAt, (HALF * 4 + k) / PER_GROUP);
            widen(words + k * WORDS, g, a[k]);
        }
    }
};

} // namespace quantised
