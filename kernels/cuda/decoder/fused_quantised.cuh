// What a warp does with the integers of 16 rows of weights and 128 of K, a step, in products of one row:
// fused_quantised.cu and fused_chain.cu.
//
// A step is 512 adjacent bytes for each 64 of K (8 bits: two such) and 32 for each group's scales and zero points.
// Each warp has a ring of its own in shared memory, which its lanes fill with cp.async: what a lane
// fetches of the codes it reads itself, and no other warp is waited for until sums are added. The
// ring runs on from one 16 rows to the next. Codes less their zero point, which the type of A holds
// exactly, are the operands; mma.sync multiplies 16 rows by eight columns that are all the row of A,
// and the sums of a group are scaled in fp32: weights are not rounded here.
#pragma once

#include "fused_product.cuh"
#include "ptx.cuh"
#include "quantised_weights.cuh"

namespace gemv {

// copyCodes copies 16 bytes to shared memory that are read once, copyScales such as lie beside
// what others read.
__device__ __forceinline__ void copyCodes(uint32_t to, const uint8_t *from) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(EVICT_FIRST) : "memory");
}
__device__ __forceinline__ void copyScales(uint32_t to, const uint8_t *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void commitStep() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void waitSteps() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// loadRow reads 32 of K of the row as operands of two multiplications, the same for all columns:
// lane l gives the address of the 8 of matrix l/8.
__device__ __forceinline__ void loadRow(uint32_t (&b)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(address)
                 : "memory");
}

// QuantisedStep: WARPS share the steps of 16 rows, and ROOM bytes of shared memory.
template <Type T, int BITS, int GROUP, bool ZEROS, int WARPS, int ROOM>
struct QuantisedStep {
    static constexpr Operand OPERAND = T == Type::FP16 ? Operand::FP16 : Operand::BF16;
    using Record = quantised::Record<OPERAND, BITS, GROUP, ZEROS>;
    using Codes = quantised::Codes<OPERAND, BITS>;
    static constexpr int GROUPS = quantised::BLOCK_K / GROUP; // of a step
    static constexpr int PIECES = 4 * BITS / 8;               // of 512 bytes of codes in a step
    static constexpr int CODES = 512 * PIECES;
    static constexpr int SCALES = 32 * GROUPS * (ZEROS ? 2 : 1);
    static constexpr int STAGE = CODES + SCALES;
    static constexpr int STAGES = ROOM / (WARPS * STAGE);
    static constexpr int RING = STAGES * STAGE;

    // Source is where a lane finds its codes of 16 rows, step after step, and how far from them what
    // it copies of the scales.
    struct Source {
        const uint8_t *codes;
        int scales;

        __device__ __forceinline__ void begin(const char *weights, uint32_t sixteen, int steps, int step) {
            const int lane = threadIdx.x % 32, place = static_cast<int>(sixteen % 4);
            codes = reinterpret_cast<const uint8_t *>(weights) + (static_cast<int64_t>(sixteen / 8) * steps + step) * Record::BYTES +
                    sixteen / 4 % 2 * Record::PART + place * 512 + lane * 16;
            scales = Record::CODES + lane / 2 * quantised::SCALE_BYTES + place * 32 + lane % 2 * 16 - place * 512 - lane * 16;
        }

        // fetch starts the copies of a step to where the lane's codes of a stage lie.
        __device__ __forceinline__ void fetch(uint32_t to) {
#pragma unroll
            for (int i = 0; i < PIECES; i++) copyCodes(to + i * 512, codes + i * 2048);
            if (threadIdx.x % 32 < SCALES / 16) copyScales(to + CODES, codes + scales);
            codes += WARPS * Record::BYTES;
        }
    };

    // multiply adds a step's products to the sums of a lane's two rows. stage is where the lane's codes
    // lie, scales where its scales do behind that, and row where the lane's rows of matrices of the row's
    // 128 of K do.
    static __device__ __forceinline__ void multiply(float (&sums)[2], uint32_t stage, uint32_t scales, uint32_t row) {
        scales += stage;
        uint32_t words[4]; // of a piece
        quantised::Group g; // of which the zero points are used
        uint32_t scale = 0;
        float d[4];
#pragma unroll
        for (int k = 0; k < 8; k += 2) { // sixteens of K
            if (k * 16 % GROUP == 0) {
                const int index = k * 16 / GROUP;
                uint32_t zeros = 0;
                if constexpr (ZEROS) zeros = quantised::loadShared4(scales + (GROUPS + index) * 32);
                scale = quantised::loadShared4(scales + index * 32);
                g = Record::group(scale, zeros);
#pragma unroll
                for (int i = 0; i < 4; i++) d[i] = 0;
            }
            constexpr int PER_PIECE = 4 / Record::WORDS; // sixteens of K
            if (k % PER_PIECE == 0) {
                const uint4 v = quantised::loadShared16(stage + k / PER_PIECE * 512);
                words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
            }
            uint32_t b[4];
            loadRow(b, row + k * 32);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t a[4];
                Codes::widen(words + (k + i) % PER_PIECE * Record::WORDS, g, a);
                if constexpr (T == Type::FP16) {
                    mmaFP16(d, a[0], a[1], a[2], a[3], b[2 * i], b[2 * i + 1]);
                } else {
                    mmaBF16(d, a[0], a[1], a[2], a[3], b[2 * i], b[2 * i + 1]);
                }
            }
            if ((k + 2) * 16 % GROUP == 0) {
                sums[0] += toFloat<T>(scale & 0xffff) * d[0];
                sums[1] += toFloat<T>(scale >> 16) * d[2];
            }
        }
    }
};

} // namespace gemv
