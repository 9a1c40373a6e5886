// The streaming loop of products for up to eight rows of A: what gemv.cu audits and
// fused_product.cu decodes with.
//
// Block: 16 rows of weights, its warps side by side along K. A warp takes 256 bytes of
// each row a step; lane 4g+t holds bytes 16t … 16t+15 of each 64 of its two rows, g of the
// first eight and g of the second, and of token g. Since a sum does not depend on the
// order of its terms, the four words of those 16 bytes serve as the fragments that
// mma.sync wants of 2 or 4 different places of K: no shuffle, no shared memory on the way.
// mma.sync has 16 rows of weights by 8 tokens; fp32 multiplies on the CUDA cores, TOKENS
// at a time. Sums of the warps meet in shared memory, [warp][token][row + 4 of padding],
// and are added in their order.
#pragma once

#include "integers.cuh"
#include "mma_sync.cuh"
#include "stream.cuh"

namespace gemv {

enum class Type { FP32, TF32, FP16, BF16, E4M3, S8 };

template <Type T>
struct Traits {
    static constexpr int size = T == Type::FP32 || T == Type::TF32 ? 4 : T == Type::FP16 || T == Type::BF16 ? 2 : 1;
    using Value = float;
};
template <>
struct Traits<Type::S8> {
    static constexpr int size = 1;
    using Value = int;
};

#if __CUDA_ARCH__ >= 890
// widen makes fp16 of the two e4m3 in the lower half of a word.
__device__ __forceinline__ uint32_t widen(uint32_t pair) {
    uint32_t r;
    asm("{\n.reg .b16 low;\ncvt.u16.u32 low, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}" : "=r"(r) : "r"(pair));
    return r;
}
#endif

// multiply adds the products of four words of rows g and g+8 with four of the tokens.
template <Type T>
__device__ __forceinline__ void multiply(typename Traits<T>::Value (&d)[4], uint4 low, uint4 high, uint4 token) {
#if __CUDA_ARCH__ >= 800
#define GA_MMA_TWICE(MMA)                                             \
    MMA(d, low.x, high.x, low.y, high.y, token.x, token.y); \
    MMA(d, low.z, high.z, low.w, high.w, token.z, token.w)
    if constexpr (T == Type::FP16) {
        GA_MMA_TWICE(mmaFP16);
    } else if constexpr (T == Type::BF16) {
        GA_MMA_TWICE(mmaBF16);
    } else if constexpr (T == Type::TF32) {
        GA_MMA_TWICE(mmaTF32);
    } else if constexpr (T == Type::S8) {
        GA_MMA_TWICE(mmaS8);
    } else if constexpr (T == Type::E4M3) {
#if __CUDA_ARCH__ >= 890
        // Through fp16, which holds every e4m3: what multiplies e4m3 itself keeps fewer
        // bits of the sum, and 9.0 has it for wgmma only.
        const uint32_t l[4] = {low.x, low.y, low.z, low.w}, h[4] = {high.x, high.y, high.z, high.w};
        const uint32_t b[4] = {token.x, token.y, token.z, token.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            mmaFP16(d, widen(l[i]), widen(h[i]), widen(l[i] >> 16), widen(h[i] >> 16), widen(b[i]), widen(b[i] >> 16));
#endif
    }
#undef GA_MMA_TWICE
#else
    // Turing's instructions take half of K, and of integers half of the rows.
    const uint32_t l[4] = {low.x, low.y, low.z, low.w}, h[4] = {high.x, high.y, high.z, high.w};
    const uint32_t b[4] = {token.x, token.y, token.z, token.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (T == Type::FP16) {
            asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                : "r"(l[i]), "r"(h[i]), "r"(b[i]));
        } else if constexpr (T == Type::S8) {
            asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                : "+r"(d[0]), "+r"(d[1])
                : "r"(l[i]), "r"(b[i]));
            asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                : "+r"(d[2]), "+r"(d[3])
                : "r"(h[i]), "r"(b[i]));
        }
    }
#endif
}

// loadToken reads the 16 bytes at byte `at` of a row of A that has `bytes`, zeros after them.
template <int SIZE>
__device__ __forceinline__ uint4 loadToken(const char *row, int at, int bytes, bool aligned) {
    if (at >= bytes) return make_uint4(0, 0, 0, 0);
    if (aligned && at + 16 <= bytes) return *reinterpret_cast<const uint4 *>(row + at);
    // Rare: not unrolled, so that it costs the loop around it few registers.
    uint64_t low = 0, high = 0;
#pragma unroll 1
    for (int i = 0; i < min(16, bytes - at); i += SIZE) {
        uint64_t v;
        if constexpr (SIZE == 4) {
            v = *reinterpret_cast<const uint32_t *>(row + at + i);
        } else if constexpr (SIZE == 2) {
            v = *reinterpret_cast<const uint16_t *>(row + at + i);
        } else {
            v = *reinterpret_cast<const uint8_t *>(row + at + i);
        }
        if (i < 8) {
            low |= v << 8 * i;
        } else {
            high |= v << 8 * (i - 8);
        }
    }
    return make_uint4(static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                      static_cast<uint32_t>(high >> 32));
}

template <Type T>
__device__ __forceinline__ void store(void *c, int64_t at, typename Traits<T>::Value v) {
    if constexpr (T == Type::FP16) {
        asm volatile("{\n.reg .b16 h;\ncvt.rn.f16.f32 h, %1;\nst.global.b16 [%0], h;\n}" ::"l"(static_cast<uint16_t *>(c) + at),
                     "f"(v) : "memory");
    } else if constexpr (T == Type::BF16 || T == Type::E4M3) {
#if __CUDA_ARCH__ >= 800
        asm volatile("{\n.reg .b16 h;\ncvt.rn.bf16.f32 h, %1;\nst.global.b16 [%0], h;\n}" ::"l"(static_cast<uint16_t *>(c) + at),
                     "f"(v) : "memory");
#endif
    } else {
        static_cast<typename Traits<T>::Value *>(c)[at] = v;
    }
}

constexpr int ROWS = 16;           // of weights, of a block
constexpr int GROUPS = ROWS / 8;    // of them, of a lane
constexpr int SPAN = 4;             // pieces of 64 bytes a step
constexpr int PITCH = ROWS + 4;     // of a token's sums in shared memory

// Rows are a block's rows of weights as one lane sees them: eight and eight more, which
// need not follow the first.
struct Rows {
    const char *first; // this lane's of the first eight
    int64_t second;    // bytes from there to its row of the second eight
    int inside;        // how many of the two there are
};

// products multiplies a block's rows with `count` tokens of `bytes` bytes each. The first
// step's weights are on their way when tokens.begin is called, which waits for whatever
// tokens wait for; tokens.load(tokens.row(m), at) are the 16 bytes from `at` on of token m. Then
// put(m, row, sum) gets every sum, `row` counting the two eights through, each from one
// thread. AHEAD is how many steps' weights are in flight; TOKENS is 8 where mma.sync
// multiplies. Dynamic shared memory begins with blockDim.x/32·8·PITCH sums.
template <Type T, int AHEAD, int TOKENS, class Tokens, class Put>
__device__ __forceinline__ void products(const Rows &rows, int bytes, int count, const Tokens &tokens, const Put &put) {
    using Value = typename Traits<T>::Value;
    constexpr bool CORES = T == Type::FP32;
    extern __shared__ __align__(16) uint8_t memory[];
    Value *shared = reinterpret_cast<Value *>(memory);

    const int warp = threadIdx.x / 32, warps = blockDim.x / 32, lane = threadIdx.x % 32;
    const int g = lane / 4, t = lane % 4;
    const char *token = tokens.row(g);

    uint4 w[AHEAD][SPAN][GROUPS];
    auto fetch = [&](uint4 (&w)[SPAN][GROUPS], int at) {
#pragma unroll
        for (int s = 0; s < SPAN; s++) {
#pragma unroll
            for (int r = 0; r < GROUPS; r++) {
                w[s][r] = r < rows.inside && at + 64 * s < bytes ? loadOnce(rows.first + r * rows.second + at + 64 * s)
                                                                : make_uint4(0, 0, 0, 0);
            }
        }
    };

    int at = warp * (SPAN * 64) + t * 16;
    const int stride = warps * (SPAN * 64);
    fetch(w[0], at);
    tokens.begin();

    if constexpr (!CORES) {
        Value d[GROUPS / 2][4] = {};
        // step multiplies one buffer while the other, if there is one, fills; false after
        // the last. `at - 16t` is the same for all lanes of a warp.
        auto step = [&](uint4 (&now)[SPAN][GROUPS], uint4 (&next)[SPAN][GROUPS]) {
            const bool more = at - t * 16 + stride < bytes;
            if (AHEAD == 2 && more) fetch(next, at + stride);
            uint4 x[SPAN];
#pragma unroll
            for (int s = 0; s < SPAN; s++) {
                x[s] = g < count ? tokens.load(token, at + 64 * s) : make_uint4(0, 0, 0, 0);
            }
#pragma unroll
            for (int s = 0; s < SPAN; s++) {
#pragma unroll
                for (int r = 0; r < GROUPS; r += 2) multiply<T>(d[r / 2], now[s][r], now[s][r + 1], x[s]);
            }
            at += stride;
            if (AHEAD == 1 && more) fetch(next, at);
            return more;
        };
        while (step(w[0], w[AHEAD - 1]) && (AHEAD == 1 || step(w[AHEAD - 1], w[0]))) {
        }
        Value *to = shared + warp * (8 * PITCH) + 2 * t * PITCH + g;
#pragma unroll
        for (int r = 0; r < GROUPS; r += 2) {
            to[8 * r] = d[r / 2][0];
            to[8 * r + PITCH] = d[r / 2][1];
            to[8 * r + 8] = d[r / 2][2];
            to[8 * r + 8 + PITCH] = d[r / 2][3];
        }
    } else {
        float d[GROUPS][TOKENS] = {};
        while (true) {
#pragma unroll
            for (int s = 0; s < SPAN; s++) {
#pragma unroll
                for (int m = 0; m < TOKENS; m++) {
                    if (m >= count) continue;
                    const uint4 x = tokens.load(tokens.row(m), at + 64 * s);
#pragma unroll
                    for (int r = 0; r < GROUPS; r++) {
                        d[r][m] = fmaf(__uint_as_float(w[0][s][r].x), __uint_as_float(x.x), d[r][m]);
                        d[r][m] = fmaf(__uint_as_float(w[0][s][r].y), __uint_as_float(x.y), d[r][m]);
                        d[r][m] = fmaf(__uint_as_float(w[0][s][r].z), __uint_as_float(x.z), d[r][m]);
                        d[r][m] = fmaf(__uint_as_float(w[0][s][r].w), __uint_as_float(x.w), d[r][m]);
                    }
                }
            }
            at += stride;
            if (at - t * 16 >= bytes) break;
            fetch(w[0], at);
        }
#pragma unroll
        for (int r = 0; r < GROUPS; r++) {
#pragma unroll
            for (int m = 0; m < TOKENS; m++) {
                d[r][m] += __shfl_xor_sync(0xffffffff, d[r][m], 1);
                d[r][m] += __shfl_xor_sync(0xffffffff, d[r][m], 2);
                if (t == m % 4) shared[warp * (8 * PITCH) + m * PITCH + g + 8 * r] = d[r][m];
            }
        }
    }
    __syncthreads();

    for (int i = threadIdx.x; i < ROWS * TOKENS; i += blockDim.x) {
        const int m = i / ROWS, row = i % ROWS;
        if (m >= count) continue;
        Value sum = 0;
        for (int v = 0; v < warps; v++) sum += shared[v * (8 * PITCH) + m * PITCH + row];
        put(m, row, sum);
    }
}

} // namespace gemv
