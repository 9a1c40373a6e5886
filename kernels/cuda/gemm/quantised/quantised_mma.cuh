// C = A·Wᵀ of 16-bit activations and weights of 4 or 8 bits through mma.sync, compute capability
// 8.0 and up, computed as its transpose. The records of weights are those of the kernel for 9.0:
// the operand of mma.sync lies in a warp's registers as a quarter of wgmma's does.
//
// Tile: 128 rows of weights by TOKENS tokens by 128 of K; eight warps of 16 rows each, so that
// every weight is made an operand once. With few tokens memory decides, 4·TOKENS operations a
// byte at 4 bits; with 128 of them shared memory gives eight warps 4 KiB of tokens for 16 of K.
//
// Every thread copies with cp.async, a stage STAGES-1 steps ahead; one barrier a step separates the
// last read of a stage from its next write. A stage is the record, then the tokens, rows of 256
// bytes in chunks of 16: chunk c of row r lies at c ^ (r & 7), so that the eight rows that one
// phase of ldmatrix reads fall into eight different groups of four banks.
//
// Work is dealt out as in the kernel for 9.0.
#pragma once

#include "mma_sync.cuh"
#include "pair.cuh"
#include "quantised_tile.cuh"
#include "quantised_weights.cuh"

namespace quantised {

struct MmaParams {
    const uint8_t *tokens; // m rows of k
    const uint8_t *weights;
    void *c;
    float *partials; // of each block, as many floats as the tile has elements
    uint32_t *flags; // of each 128 threads of each block, 1 while their partial waits
    int64_t tokenBytes; // from row to row, a multiple of 16
    int64_t ldc;
    int m, n, k;
    int steps;      // of K a tile takes
    int tokenTiles; // of the m tokens
    int rowTiles;   // of the n rows of weights
    int band;       // tiles of tokens that are walked together
    Cut cut;        // which of the tiles are cut along K
    int pairs;      // two elements of C may be written at once
};

constexpr int MMA_THREADS = 256;

// copyPart copies so many bytes of 16 to shared memory, and zeros in the place of the others.
__device__ __forceinline__ void copyPart(uint32_t to, const uint8_t *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void waitCopies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// loadTokens4 reads four 8×8 matrices, loadTokens2 two: lane l gives the address of row l%8 of
// matrix l/8.
__device__ __forceinline__ void loadTokens4(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void loadTokens2(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address) : "memory");
}

// transposed is the transpose of an 8×8 matrix that a warp holds.
__device__ __forceinline__ uint32_t transposed(uint32_t v) {
    uint32_t r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
    return r;
}

// mmaStages is how many stages there are: as many as leave room for two blocks where tokens are few.
__host__ __device__ constexpr int mmaStages(int tokens) { return tokens <= 32 ? 4 : tokens <= 64 ? 3 : 2; }

template <Operand T, int BITS, int GROUP, bool ZEROS, int TOKENS>
struct MmaProduct {
    using Weights = Record<T, BITS, GROUP, ZEROS>;
    static constexpr int ROW_BYTES = 256; // of a token in a stage
    static constexpr int STAGE = Weights::BYTES + TOKENS * ROW_BYTES;
    static constexpr int STAGES = mmaStages(TOKENS);

    const MmaParams &p;
    uint32_t ring;

    __device__ MmaProduct(const MmaParams &params) : p(params) {
        extern __shared__ __align__(128) uint8_t shared[];
        ring = sharedAddress(shared);
    }

    __device__ void run() {
        float sums[TOKENS / 8][4];
        for (Walk w = walk(p); w.next();) {
            const Place at = place(p, w.tile);
#pragma unroll
            for (int j = 0; j < TOKENS / 8; j++) {
#pragma unroll
                for (int i = 0; i < 4; i++) sums[j][i] = 0;
            }
            const int steps = w.end - w.begin;
#pragma unroll
            for (int s = 0; s < STAGES - 1; s++) {
                if (s < steps) fetch(at, w.begin + s, s);
                commitCopies();
            }
            int slot = 0, next = STAGES - 1;
#pragma unroll 1
            for (int i = 0; i < steps; i++) {
                waitCopies<STAGES - 2>();
                __syncthreads();
                if (i + STAGES - 1 < steps) fetch(at, w.begin + i + STAGES - 1, next);
                commitCopies();
                const uint32_t stage = ring + slot * STAGE;
                Group g;
                multiply<0>(sums, g, stage);
                multiply<1>(sums, g, stage);
                slot = slot == STAGES - 1 ? 0 : slot + 1;
                next = next == STAGES - 1 ? 0 : next + 1;
            }
            waitCopies<0>();
            __syncthreads(); // before the next tile's copies
            if (w.end < w.steps) {
                handOver<TOKENS>(p, &sums[0][0]);
                continue;
            }
            if (w.begin > 0) takeOver<TOKENS>(p, &sums[0][0], w.tile);
            put(sums, at.token * TOKENS, at.row * ROWS + threadIdx.x / 32 * 16);
        }
    }

    // fetch starts the copies of a step to a stage.
    __device__ __forceinline__ void fetch(Place at, int step, int slot) const {
        const uint32_t stage = ring + slot * STAGE;
        const uint8_t *weights = record<Weights::BYTES>(p, at.row, step);
#pragma unroll
        for (int i = 0; i < Weights::BYTES; i += 16 * MMA_THREADS) {
            const int byte = i + threadIdx.x * 16;
            if (byte < Weights::BYTES) copyPart(stage + byte, weights + byte, 16);
        }
#pragma unroll
        for (int i = 0; i < TOKENS * 16; i += MMA_THREADS) {
            const int chunk = i + threadIdx.x;
            if (TOKENS * 16 % MMA_THREADS != 0 && chunk >= TOKENS * 16) break;
            const int row = chunk / 16, column = chunk % 16, token = at.token * TOKENS + row;
            const int bytes = token < p.m ? max(0, min(16, 2 * (p.k - step * BLOCK_K) - column * 16)) : 0;
            // What is not there must not be pointed to either.
            const uint8_t *from = bytes > 0 ? p.tokens + token * p.tokenBytes + step * (2 * BLOCK_K) + column * 16 : p.tokens;
            copyPart(stage + Weights::BYTES + row * ROW_BYTES + (column ^ (row & 7)) * 16, from, bytes);
        }
    }

    // multiply adds the products of one half of a step.
    template <int HALF>
    __device__ __forceinline__ void multiply(float (&sums)[TOKENS / 8][4], Group &g, uint32_t stage) const {
        const int thread = threadIdx.x % 128, lane = threadIdx.x % 32;
        const uint32_t part = stage + threadIdx.x / 128 * Weights::PART;
        uint32_t a[4][4];
        Weights::template operands<HALF>(part + thread * 16, part + Weights::CODES + (thread / 32 * 8 + thread % 32 / 4) * 4, g, a);
        const uint32_t tokens = stage + Weights::BYTES + (lane / 16 * 8 + lane % 8) * ROW_BYTES;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint32_t column = ((HALF * 8 + 2 * k + lane / 8 % 2) ^ (lane % 8)) * 16;
#pragma unroll
            for (int j = 0; j < TOKENS / 8; j += 2) {
                uint32_t b[4];
                if constexpr (TOKENS == 8) {
                    // The other lanes' addresses are not read, and are those of the same rows.
                    loadTokens2(b, stage + Weights::BYTES + lane % 8 * ROW_BYTES + column);
                } else {
                    loadTokens4(b, tokens + j * 8 * ROW_BYTES + column);
                }
                add(sums[j], a[k], b[0], b[1]);
                if constexpr (TOKENS > 8) add(sums[j + 1], a[k], b[2], b[3]);
            }
        }
    }

    static __device__ __forceinline__ void add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
        if constexpr (T == Operand::BF16) {
            mmaBF16(d, a[0], a[1], a[2], a[3], b0, b1);
        } else {
            mmaFP16(d, a[0], a[1], a[2], a[3], b0, b1);
        }
    }

    // put writes a warp's sums: 16 columns of C, from n on, of TOKENS tokens. Transposed, a thread
    // has two neighbours of each half.
    __device__ void put(const float (&sums)[TOKENS / 8][4], int token0, int n) const {
        constexpr bool BF16 = T == Operand::BF16;
        const int lane = threadIdx.x % 32;
        n += lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j++) {
            const int token = token0 + 8 * j + lane / 4;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint32_t v = transposed(packPair<BF16>(sums[j][2 * half], sums[j][2 * half + 1]));
                const int column = n + 8 * half;
                uint16_t *to = static_cast<uint16_t *>(p.c) + token * p.ldc + column;
                if (token < p.m && column + 1 < p.n && p.pairs) {
                    *reinterpret_cast<uint32_t *>(to) = v;
                } else if (token < p.m && column < p.n) {
                    to[0] = static_cast<uint16_t>(v);
                    if (column + 1 < p.n) to[1] = static_cast<uint16_t>(v >> 16);
                }
                __syncwarp();
            }
        }
    }
};

} // namespace quantised

// GA_QUANTISED_MMA makes the kernels of a tile, without and with zero points:
// ga_w4a16_mma_bf16_g128_64 and _g128z_64.
#define GA_QUANTISED_MMA_KERNEL(DTYPE, T, BITS, GROUP, SUFFIX, ZEROS, TOKENS)                                          \
    extern "C" __global__ void __launch_bounds__(quantised::MMA_THREADS, TOKENS <= 32 ? 2 : 1)                         \
        ga_w##BITS##a16_mma_##DTYPE##_g##GROUP##SUFFIX##_##TOKENS(const __grid_constant__ quantised::MmaParams p) {    \
        quantised::MmaProduct<Operand::T, BITS, GROUP, ZEROS, TOKENS>(p).run();                                        \
    }
#define GA_QUANTISED_MMA(BITS, DTYPE, T, GROUP, TOKENS)            \
    GA_QUANTISED_MMA_KERNEL(DTYPE, T, BITS, GROUP, , false, TOKENS) \
    GA_QUANTISED_MMA_KERNEL(DTYPE, T, BITS, GROUP, z, true, TOKENS)
