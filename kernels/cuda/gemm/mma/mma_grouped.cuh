// mma_grouped: C[i] = A[i]·B[group of i]ᵀ through mma.sync, for rows that are sorted by group, as a mixture of experts
// multiplies them. Compute capability 8.0 and up.
//
// Sides     Weights lie on the rows of mma.sync, which come in 16s, tokens on its columns, which come in 8s: a group has any
//           number of rows, the weights of a model a multiple of 128.
// Tile      ROWS rows of weights × up to MOST tokens × Row bytes of K a step:
//             128×16, 128×32, 128×64   4 warps of 32 × all tokens       128 bytes   few rows a group
//             128×128                  4 warps, 2×2 (64×64)             64          N is small
//             256×128                  8 warps, 4×2 (64×64)             64          many rows
//           A group with r rows has T = ceil(r ÷ MOST) tiles of tokens, all of the same width, a multiple of 16: a group of 140
//           rows multiplies 2·80 and not 2·128. Warps that share the tokens have every second 16 of them, so that narrow tiles
//           keep both busy.
// Sizes     Rows of each group are read on the device. Every block adds them up in a table in shared memory. Rows of group g
//           begin at the sum of the sizes before it, or at g·stride: the form in which decoders, which launch the same graph at
//           each step, leave room for every group.
// Grid      Persistent. A block takes the next tile when it is done with its own: tiles of large groups take longer than those
//           of small ones. Tiles of a group that share weights follow each other, so that weights come from memory once.
// Ring      Copies by cp.async run stages-1 steps ahead of the products, beyond the end of a tile: while C is written, the next
//           tile arrives. Thread 0 finds tiles and writes them in a line in shared memory.
// Split-K   As in mma.cu: the last block to arrive adds the sums in the order of K, so that results repeat bit for bit.
// C         Sums have neighbouring tokens side by side, rows of C neighbouring weights: 8×8 matrices are transposed by movmatrix,
//           32-bit outputs in shared memory.
//
// Shared memory: the ring, whose stages hold rows of weights and then of tokens, swizzled as in mma.cu; a slab of 8 tokens a
// warp, through which C leaves; the line; the table.
//
// Arithmetic intensity: a 256×128 tile as mma.cu's 128×256. A group of 16 rows: 16 FLOP per byte of weights, which is what
// memory allows.

#pragma once

#include "ampere.cuh"
#include "mma_grouped_table.cuh"
#include "mma_grouped_tiles.cuh"
#include "mma_multiply.cuh"
#include "sums.cuh"

namespace ga_mma {

// transpose exchanges rows and columns of an 8×8 matrix of 16-bit elements.
__device__ __forceinline__ unsigned transpose(unsigned m) {
    unsigned r;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(m));
    return r;
}

// waitFor waits until so many of this thread's groups of copies are pending at most: 1 to 6. Branches would double what follows.
__device__ __forceinline__ void waitFor(int pending) {
    asm volatile("{.reg .pred p<7>;\n"
                 "setp.eq.s32 p1, %0, 1;\nsetp.eq.s32 p2, %0, 2;\nsetp.eq.s32 p3, %0, 3;\n"
                 "setp.eq.s32 p4, %0, 4;\nsetp.eq.s32 p5, %0, 5;\nsetp.eq.s32 p6, %0, 6;\n"
                 "@p1 cp.async.wait_group 1;\n@p2 cp.async.wait_group 2;\n@p3 cp.async.wait_group 3;\n"
                 "@p4 cp.async.wait_group 4;\n@p5 cp.async.wait_group 5;\n@p6 cp.async.wait_group 6;}" ::"r"(pending)
                 : "memory");
}

template <Type T, int ROWS, int MOST, int WarpsR, int WarpsC, int Row>
struct Grouped {
    using Acc = typename Traits<T>::Acc;
    static constexpr int threads = WarpsR * WarpsC * 32;
    static constexpr int warpRows = ROWS / WarpsR, warpTokens = MOST / WarpsC;
    static constexpr int tilesA = warpRows / 16, pairs = warpTokens / 16; // mma tiles of a warp, in pairs along tokens
    static constexpr int units = Row / 32;                                // mma steps of a stage
    static constexpr int chunks = Row / 16;
    static constexpr int copyRows = threads / chunks; // rows that all threads copy at once
    static constexpr int copiesA = ROWS / copyRows, copiesB = MOST / copyRows;
    static constexpr int bytesA = ROWS * Row, stageBytes = (ROWS + MOST) * Row;
    static constexpr int outSize = Traits<T>::outSize;
    static constexpr int slabRow = warpRows * outSize + 16; // four banks more than its data: no conflicts
    static constexpr int slabBytes = 8 * slabRow;

    static_assert(Row == 64 || Row == 128, "swizzles exist for rows of 64 and 128 bytes");
    static_assert(copyRows % 8 == 0 && ROWS % copyRows == 0 && MOST % copyRows == 0, "every copy is whole");
    static_assert(units % 2 == 0, "fragments are loaded a step ahead");

    // swizzle is what the chunks of a row are exchanged by.
    static __device__ __forceinline__ int swizzle(int row) { return Row == 128 ? row & 7 : row >> 1 & 3; }

    const GroupedParams& p;

    Acc acc[tilesA][2 * pairs][4];
    unsigned a[2][tilesA][4], b[2][pairs][4]; // fragments of this unit and of the next

    // fragments loads those of a unit for so many pairs from addresses in a stage.
    template <int COUNT>
    __device__ __forceinline__ void fragments(unsigned atA, unsigned atB, int unit) {
        atA ^= unit * 32;
        atB ^= unit * 32;
#pragma unroll
        for (int i = 0; i < tilesA; i++) loadMatrices(a[unit % 2][i], atA + i * 16 * Row);
#pragma unroll
        for (int j = 0; j < COUNT; j++) loadMatrices(b[unit % 2][j], atB + j * (WarpsC * 16 * Row));
    }

    // multiplyUnit multiplies so many pairs of a unit, while the next unit's fragments arrive.
    template <int COUNT>
    __device__ __forceinline__ void multiplyUnit(unsigned atA, unsigned atB, int unit) {
        if constexpr (COUNT <= pairs) {
            fragments<COUNT>(atA, atB, (unit + 1) % units);
#pragma unroll
            for (int j = 0; j < COUNT; j++)
#pragma unroll
                for (int i = 0; i < tilesA; i++)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        multiply<T>(acc[i][2 * j + h], a[unit % 2][i], b[unit % 2][j][2 * h], b[unit % 2][j][2 * h + 1]);
        }
    }

    __device__ __forceinline__ void run(char* shared) {
        const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
        const int part = warp % WarpsR, column = warp / WarpsR; // of the rows of weights, and of the tokens
        const unsigned base = sharedAddress(shared), ringEnd = p.stages * stageBytes, slab = base + ringEnd + warp * slabBytes;
        Piece* const line = reinterpret_cast<Piece*>(shared + ringEnd + WarpsR * WarpsC * slabBytes);
        GroupTable<ROWS, MOST, threads> table(p, line + LINE);
        table.fill(reinterpret_cast<int*>(line));

        // What this thread copies: the same chunk of every copyRows-th row.
        const int copyRow = thread / chunks, copyChunk = thread % chunks;
        const unsigned copyTo = base + copyRow * Row + (copyChunk ^ swizzle(copyRow)) * 16;
        const char *fromA = nullptr, *fromB = nullptr;
        int leftK = 0, toLoad = 0;
        unsigned exists = 0; // a bit for each copy
        int entered = 0;                 // pieces
        bool more = true, told = false;  // whether there may be another one, and whether it is in the line
        int pending = blockIdx.x;        // the next piece, in thread 0
        unsigned writeStage = 0;

        // load begins to copy a stage: the next step of the piece, or the first of the next piece.
        auto load = [&] {
            if (toLoad == 0 && told) {
                const Piece piece = line[entered % LINE];
                told = false;
                more = piece.tile >= 0;
                if (more) {
                    if (thread == 0) pending = gridDim.x + atomicAdd(p.flags, 1u);
                    const int firstStep = piece.split * p.stepsPerSplit;
                    leftK = p.kBytes - firstStep * Row;
                    toLoad = min(p.stepsPerSplit, (leftK + Row - 1) / Row);
                    leftK -= copyChunk * 16;
                    const int leftA = p.rows - piece.weights - copyRow, leftB = min(piece.last - piece.token, piece.width) - copyRow;
                    exists = 0;
#pragma unroll
                    for (int i = 0; i < copiesA; i++) exists |= (i * copyRows < leftA) << i;
#pragma unroll
                    for (int i = 0; i < copiesB; i++) exists |= (i * copyRows < leftB) << copiesA + i;
                    const long long offset = (long long)firstStep * Row + copyChunk * 16;
                    fromA = p.weights + (piece.above + piece.weights + copyRow) * p.weightsBytes + offset;
                    fromB = p.tokens + (piece.token + copyRow) * p.tokensBytes + offset;
                    entered++;
                }
            }
            if (toLoad > 0) {
                const unsigned to = copyTo + writeStage;
#pragma unroll
                for (int i = 0; i < copiesA; i++)
                    copy16(to + i * copyRows * Row, fromA + i * copyRows * p.weightsBytes, leftK > 0 && exists >> i & 1);
                // Columns without a token are not stored: what lies there does not matter.
#pragma unroll
                for (int i = 0; i < copiesB; i++)
                    if (exists >> copiesA + i & 1)
                        copy16(to + bytesA + i * copyRows * Row, fromB + i * copyRows * p.tokensBytes, leftK > 0);
                fromA += Row;
                fromB += Row;
                leftK -= Row;
                toLoad--;
                writeStage = writeStage + stageBytes == ringEnd ? 0 : writeStage + stageBytes;
            }
            copyCommit();
            if (toLoad == 0 && more) {
                if (thread == 0) line[entered % LINE] = table.find(pending);
                told = true;
            }
        };

        // What this thread reads: ldmatrix takes the addresses of 32 rows of 16 bytes. Weights: rows 0-15 at the first chunk of
        // a unit, then at the second. Tokens: rows 0-7 at the first chunk, at the second, and rows 8-15 likewise.
        const int rowA = part * warpRows + lane % 16;
        const int rowB = column * 16 + lane % 8 + lane / 16 * 8;
        const unsigned readA = base + rowA * Row + (lane / 16 ^ swizzle(rowA)) * 16;
        const unsigned readB = base + bytesA + rowB * Row + (lane / 8 % 2 ^ swizzle(rowB)) * 16;
        unsigned readStage = 0;
        // The ring fills while a piece without tokens is multiplied: its first step tells of the first piece.
        int steps = p.stages;
        int active = 0; // pairs of this warp
#pragma unroll 1
        for (int at = 0;; at++) {
#pragma unroll
            for (int i = 0; i < tilesA; i++)
#pragma unroll
                for (int j = 0; j < 2 * pairs; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) acc[i][j][e] = 0;

#pragma unroll 1
            for (int step = 0; step < steps; step++) {
#pragma unroll
                for (int unit = 0; unit < units; unit++) {
                    if (unit == 0) load();
                    if (unit == units - 1) {
                        // The next stage has landed, for every thread, and this one was read.
                        waitFor(p.stages - 2);
                        __syncthreads();
                        readStage = readStage + stageBytes == ringEnd ? 0 : readStage + stageBytes;
                    }
                    // A branch for each count: with one for each pair, ptxas holds the warp together before every product.
                    const unsigned atA = readA + readStage, atB = readB + readStage;
                    switch (active) {
                    case 4: multiplyUnit<4>(atA, atB, unit); break;
                    case 3: multiplyUnit<3>(atA, atB, unit); break;
                    case 2: multiplyUnit<2>(atA, atB, unit); break;
                    case 1: multiplyUnit<1>(atA, atB, unit); break;
                    }
                }
            }
            if (at > 0) {
                const Piece piece = line[(at - 1) % LINE];
                if (p.splits == 1 || reduce(piece, active)) store(piece, slab, part, column, active);
            }
            const Piece& piece = line[at % LINE];
            if (piece.tile < 0) break;
            active = (piece.width / 16 + WarpsC - 1 - column) / WarpsC;
            fragments<pairs>(readA + readStage, readB + readStage, 0);
            steps = min(p.stepsPerSplit, (p.kBytes + Row - 1) / Row - piece.split * p.stepsPerSplit);
        }
        copyWait<0>();
        // The last block that is done leaves zeros.
        if (thread == 0 && atomicAdd(p.flags + 1, 1u) == gridDim.x - 1) {
            p.flags[0] = 0;
            p.flags[1] = 0;
        }
    }

    // reduce leaves this block's sum in scratch; in the last block of a tile it returns true with the sum of all of them.
    __device__ __forceinline__ bool reduce(const Piece& piece, int active) {
        constexpr int quads = tilesA * 2 * pairs;
        float4* const all = p.partial + (long long)piece.tile * p.splits * quads * threads + threadIdx.x;
        float4* const own = all + (long long)piece.split * quads * threads;
#pragma unroll
        for (int j = 0; j < 2 * pairs; j++) {
            if (j / 2 >= active) break;
#pragma unroll
            for (int i = 0; i < tilesA; i++) {
                const Acc(&v)[4] = acc[i][j];
                own[(j * tilesA + i) * threads] = make_float4(asFloat(v[0]), asFloat(v[1]), asFloat(v[2]), asFloat(v[3]));
            }
        }
        // The barriers carry the order from thread to thread, the counter from block to block: one thread's release and acquire
        // serve all.
        __syncthreads();
        if (!__syncthreads_or(threadIdx.x == 0 && arrive(piece.tile))) return false;
#pragma unroll
        for (int i = 0; i < tilesA; i++)
#pragma unroll
            for (int j = 0; j < 2 * pairs; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
#pragma unroll 1
        for (int s = 0; s < p.splits; s++) {
#pragma unroll
            for (int j = 0; j < 2 * pairs; j++) {
                if (j / 2 >= active) break;
#pragma unroll
                for (int i = 0; i < tilesA; i++) {
                    const float4 v = __ldcg(all + ((long long)s * quads + j * tilesA + i) * threads);
                    addTo(acc[i][j][0], v.x);
                    addTo(acc[i][j][1], v.y);
                    addTo(acc[i][j][2], v.z);
                    addTo(acc[i][j][3], v.w);
                }
            }
        }
        return true;
    }
    // arrive counts the block at its tile, and returns whether it is the last.
    __device__ __forceinline__ bool arrive(int tile) const {
        unsigned before;
        asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(p.flags + 2 + tile) : "memory");
        if (before != p.splits - 1) return false;
        p.flags[2 + tile] = 0;
        return true;
    }

    // store writes the tokens through a slab of 8 a warp, whose rows then go out in pieces of 16 bytes, or element by element
    // where C does not allow that.
    __device__ __forceinline__ void store(const Piece& piece, unsigned slab, int part, int column, int active) const {
        const int lane = threadIdx.x % 32;
        const int weights = piece.weights + part * warpRows, count = min(warpRows, p.rows - weights);
        constexpr int perPiece = 16 / outSize, pieces = warpRows / perPiece, perPass = 32 / pieces;
        const int at = lane % pieces, whole = p.vectorC ? count / perPiece : 0;
        if (count <= 0) return;
#pragma unroll
        for (int j = 0; j < 2 * pairs; j++) {
            const int token = piece.token + (j / 2 * WarpsC + column) * 16 + j % 2 * 8, tokens = min(8, piece.last - token);
            if (j / 2 >= active || tokens <= 0) break;
#pragma unroll
            for (int i = 0; i < tilesA; i++) put(slab, i, acc[i][j]);
            __syncwarp();
            char* const out = p.c + (token * p.ldc + weights) * outSize;
#pragma unroll 1
            for (int r = lane / pieces; r < tokens; r += perPass) {
                const unsigned from = slab + r * slabRow + at * 16;
                char* const to = out + r * p.ldc * outSize + at * 16;
                if (at < whole) {
                    float4 v;
                    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                                 : "r"(from)
                                 : "memory");
                    *reinterpret_cast<float4*>(to) = v;
                } else {
#pragma unroll 1
                    for (int e = 0; e < min(perPiece, count - at * perPiece); e++) storeElement(to + e * outSize, from + e * outSize);
                }
            }
            __syncwarp();
        }
    }

    // put writes 16 weights of 8 tokens to the slab, whose rows are tokens.
    static __device__ __forceinline__ void put(unsigned slab, int i, const float (&v)[4]) {
        const int lane = threadIdx.x % 32;
        const unsigned to = slab + lane / 4 * slabRow + (i * 16 + lane % 4 * 2) * outSize;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const unsigned m = transpose(packOutputs<T != Type::fp16>(v[2 * h], v[2 * h + 1]));
            asm volatile("st.shared.u32 [%0], %1;" ::"r"(to + h * 8 * outSize), "r"(m) : "memory");
        }
    }
    static __device__ __forceinline__ void put(unsigned slab, int i, const int (&v)[4]) {
        const int lane = threadIdx.x % 32;
        const unsigned to = slab + lane % 4 * 2 * slabRow + (i * 16 + lane / 4) * outSize;
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("st.shared.s32 [%0], %1;" ::"r"(to + e % 2 * slabRow + e / 2 * 8 * outSize), "r"(v[e]) : "memory");
    }

    static __device__ __forceinline__ void storeElement(char* to, unsigned from) {
        if constexpr (outSize == 2) {
            unsigned short v;
            asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(from) : "memory");
            *reinterpret_cast<unsigned short*>(to) = v;
        } else {
            unsigned v;
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
            *reinterpret_cast<unsigned*>(to) = v;
        }
    }
};

} // namespace ga_mma

// The symbol ends in the tile; blocks is how many fit an SM.
#define GA_MMA_GROUPED(TYPE, ROWS, MOST, WARPSR, WARPSC, ROW, BLOCKS)                             \
    extern "C" __global__ void __launch_bounds__(WARPSR * WARPSC * 32, BLOCKS)                    \
        ga_mma_grouped_##TYPE##_##ROWS##x##MOST(const __grid_constant__ ga_mma::GroupedParams p) { \
        extern __shared__ __align__(128) char shared[];                                           \
        ga_mma::Grouped<ga_mma::Type::TYPE, ROWS, MOST, WARPSR, WARPSC, ROW> kernel{p};            \
        kernel.run(shared);                                                                       \
    }
