// arch: 80 86 89 90a ptx90
//
// What is done once with quantised weights as they are given (kernels.WeightFormat): brought into
// the records of quantised_weights.cuh, or made plain elements.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "integers.cuh"

struct RawParams {
    const uint8_t *codes; // n rows of k, each of whole bytes
    const uint16_t *scales; // n rows of k ÷ group
    const uint8_t *zeros;   // as many, as one stream of codes; null for 2^(bits−1)
    void *out;
    int64_t count; // words of records; eights of plain elements
    int n, k;
    int group; // of K that share a scale
    int bits;  // 4 or 8
    int bf16;  // else fp16: the type of scales and of plain elements
    int steps; // records along K; rows of plain elements, in eights
    int packedGroup; // of K that share a scale in a record: 32, 64 or 128
};

namespace {

// codeAt is the index-th code of a stream, the first one of a byte in its lower half.
__device__ __forceinline__ uint32_t codeAt(const uint8_t *from, int64_t index, int bits) {
    if (bits == 8) return from[index];
    return from[index / 2] >> index % 2 * 4 & 15;
}

__device__ __forceinline__ int64_t groupAt(const RawParams &p, int64_t row, int k) { return row * (p.k / p.group) + k / p.group; }

__device__ __forceinline__ uint32_t code(const RawParams &p, int64_t row, int k) {
    return row < p.n && k < p.k ? codeAt(p.codes, row * p.k + k, p.bits) : 0;
}

// What lies outside of the weights has a scale of 0.
__device__ __forceinline__ uint32_t scale(const RawParams &p, int64_t row, int k) {
    return row < p.n && k < p.k ? p.scales[groupAt(p, row, k)] : 0;
}

__device__ __forceinline__ uint32_t zero(const RawParams &p, int64_t row, int k) {
    if (!p.zeros || row >= p.n || k >= p.k) return 1u << (p.bits - 1);
    return codeAt(p.zeros, groupAt(p, row, k), p.bits);
}

// codesWord is a word of a thread: of four bits its four of row, row+8, row, row+8, two and two;
// of eight bits two of row and two of row+8, for the lower or the upper eight of K.
__device__ uint32_t codesWord(const RawParams &p, int64_t row, int k0, int word) {
    const int thread = word / 4 % 128;
    row += thread / 32 * 16 + thread % 32 / 4;
    int k = k0 + thread % 4 * 2;
    if (p.bits == 4) {
        k += word / 512 * 64 + word % 4 * 16;
        uint32_t v = 0;
        for (int i = 0; i < 4; i++) {
            const int64_t r = row + i % 2 * 8;
            v |= (code(p, r, k + i / 2 * 8) | code(p, r, k + i / 2 * 8 + 1) << 16) << 4 * i;
        }
        return v;
    }
    const int of = word / 512 % 2 * 4 + word % 4; // of the eight words of 64 of K
    k += word / 1024 * 64 + of / 2 * 16 + of % 2 * 8;
    return code(p, row, k) | code(p, row, k + 1) << 8 | code(p, row + 8, k) << 16 | code(p, row + 8, k + 1) << 24;
}

// subtracted is what a product's kernel subtracts for a zero point: see Codes there.
__device__ uint32_t subtracted(const RawParams &p, uint32_t zero, int second) {
    if (p.bf16) return p.bits == 4 ? 0x4300 + zero : zero;
    if (p.bits == 8) return 0x6400 + zero;
    return second ? __half_as_ushort(__int2half_rn(-64 - static_cast<int>(zero))) : 0x6400 + zero;
}

} // namespace

extern "C" __global__ void __launch_bounds__(256) ga_quantised_pack(const __grid_constant__ RawParams p) {
    const int codes = 64 * 128 * p.bits / 32, scales = 128 / p.packedGroup * 32; // words
    const int part = codes + scales * (p.zeros ? 2 : 1);
    for (int64_t i = blockIdx.x * 256ll + threadIdx.x; i < p.count; i += gridDim.x * 256ll) {
        const int64_t record = i / (2 * part);
        int word = static_cast<int>(i % (2 * part));
        int64_t row = record / p.steps * 128 + word / part * 64;
        const int k = static_cast<int>(record % p.steps) * 128;
        word %= part;
        uint32_t v;
        if (word < codes) {
            v = codesWord(p, row, k, word);
        } else {
            word -= codes;
            row += word % 32 / 8 * 16 + word % 8;
            const int at = k + word % scales / 32 * p.packedGroup;
            v = word < scales ? scale(p, row, at) | scale(p, row + 8, at) << 16
                              : subtracted(p, zero(p, row, at), 0) | subtracted(p, zero(p, row + 8, at), 1) << 16;
        }
        static_cast<uint32_t *>(p.out)[i] = v;
    }
}

// Rows of p.steps·8 elements, zeros behind the k that there are.
extern "C" __global__ void __launch_bounds__(256) ga_quantised_plain(const __grid_constant__ RawParams p) {
    for (int64_t i = blockIdx.x * 256ll + threadIdx.x; i < p.count; i += gridDim.x * 256ll) {
        const int64_t row = i / p.steps;
        const int k0 = static_cast<int>(i % p.steps) * 8;
        uint32_t words[4] = {};
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const int k = k0 + j;
            const uint32_t bits = scale(p, row, k);
            const float by = p.bf16 ? __uint_as_float(bits << 16) : __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
            // Exact: the difference has nine bits, the scale eleven.
            const float v = static_cast<float>(static_cast<int>(code(p, row, k)) - static_cast<int>(zero(p, row, k))) * by;
            const uint32_t e = k >= p.k ? 0 : p.bf16 ? __bfloat16_as_ushort(__float2bfloat16_rn(v)) : __half_as_ushort(__float2half_rn(v));
            words[j / 2] |= e << 16 * (j % 2);
        }
        static_cast<uint4 *>(p.out)[i] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
