// The kernel of mma.cu and mma_epilogue.cu, one template for all tiles and types.
#pragma once

#include "ampere.cuh"
#include "mma_multiply.cuh"
#include "raster.cuh"
#include "sums.cuh"

// GA_MMA_BEFORE_STORE gets what is stored: a thread's sums, and the first column of C that it has. GA_MMA_BEFORE_PUT gets 16 bytes
// of C, and GA_MMA_ELEMENT one element. Macros, as other template parameters change the machine code of kernels without an epilogue.
#ifndef GA_MMA_BEFORE_STORE
#define GA_MMA_BEFORE_STORE(PARAMS, SUMS, COLUMN, TYPE)
#define GA_MMA_BEFORE_PUT(PARAMS, TO, PIECE, TYPE)
#define GA_MMA_ELEMENT(PARAMS, TO, VALUE, TYPE) VALUE
#endif

namespace ga_mma {

struct Params {
    const char* a;
    const char* b;
    char* c;
    float4* partial;       // [tile][split][fragment][thread], split-K only
    unsigned* arrived;     // one counter a tile, zero before and after, split-K only
    long long ldaBytes;    // a multiple of 16
    long long ldbBytes;    // a multiple of 16
    long long ldc;         // in elements
    int m, n;
    int kBytes;            // of a row, a multiple of 16
    int tilesM, tilesN;
    int group;             // tile rows that are walked together, for L2
    int splits;            // ranges of K
    int stepsPerSplit;     // steps of K in a range
    int vectorC;           // C and ldc allow 16-byte stores
};

// storeChunk stores 16 bytes to shared memory.
__device__ __forceinline__ void storeChunk(unsigned to, const uint4& v) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// storePair rounds two neighbours of a row to the output type and stores them.
template <Type T>
__device__ __forceinline__ void storePair(unsigned to, float x, float y) {
    if constexpr (Traits<T>::outSize == 4) {
        asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(to), "f"(x), "f"(y) : "memory");
    } else {
        const unsigned packed = packOutputs<T != Type::fp16>(x, y);
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(packed) : "memory");
    }
}

template <Type T>
__device__ __forceinline__ void storePair(unsigned to, int x, int y) {
    asm volatile("st.shared.v2.s32 [%0], {%1,%2};" ::"r"(to), "r"(x), "r"(y) : "memory");
}

// ASYNC says whether copies to shared memory pass the registers by.
#if __CUDA_ARCH__ >= 800
constexpr bool ASYNC = true;
#else
constexpr bool ASYNC = false;
#endif

template <Type T, int BM, int BN, int WarpsM, int WarpsN, int Row, int Stages>
struct Kernel {
    using Acc = typename Traits<T>::Acc;
    static constexpr int threads = WarpsM * WarpsN * 32;
    static constexpr int warpM = BM / WarpsM, warpN = BN / WarpsN;
    static constexpr int tilesA = warpM / 16, tilesB = warpN / 8; // mma tiles of a warp
    static constexpr int units = Row / 32;                        // mma steps of a stage
    static constexpr int chunks = Row / 16;
    static constexpr int copyRows = threads / chunks; // rows that all threads copy at once
    static constexpr int copiesA = BM / copyRows, copiesB = BN / copyRows;
    static constexpr int bytesA = BM * Row, stageBytes = (BM + BN) * Row;
    static constexpr int outSize = Traits<T>::outSize;
    // A row of the epilogue's slab is 4 banks longer than its data for 2-byte
    // outputs and 8 for 4-byte ones: fragments are then written without conflicts.
    static constexpr int slabRow = warpN * outSize + 8 * outSize;
    static constexpr int slabBytes = 16 * slabRow;

    static_assert(Row == 64 || Row == 128, "swizzles exist for rows of 64 and 128 bytes");
    static_assert(copyRows % 8 == 0 && BM % copyRows == 0 && BN % copyRows == 0, "every copy is whole");
    static_assert(warpN % 16 == 0 && units >= 2 && Stages >= (ASYNC ? 3 : 2), "fragments are loaded in pairs, a step ahead");
    static_assert(WarpsM * WarpsN * slabBytes <= Stages * stageBytes, "the slabs lie where the stages were");

    // swizzle is what the chunks of a row are exchanged by.
    static __device__ __forceinline__ int swizzle(int row) { return Row == 128 ? row & 7 : row >> 1 & 3; }

    Acc acc[tilesA][tilesB][4];

    __device__ __forceinline__ void run(const Params& p, char* shared) {
        const int tile = blockIdx.x / p.splits, split = blockIdx.x % p.splits;
        const Raster<int> at(tile, p.group, p.tilesM, p.tilesN);
        const int firstM = at.row * BM, firstN = at.column * BN;
        const unsigned base = sharedAddress(shared);

#pragma unroll
        for (int i = 0; i < tilesA; i++)
#pragma unroll
            for (int j = 0; j < tilesB; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) acc[i][j][e] = 0;

        sum(p, base, firstM, firstN, split * p.stepsPerSplit);
        if (p.splits > 1 && !reduce(p, shared, tile, split)) return;
        store(p, base, firstM, firstN);
    }

    // sum multiplies the steps of K from firstStep on.
    __device__ __forceinline__ void sum(const Params& p, unsigned base, int firstM, int firstN, int firstStep) {
        const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
        const int steps = min(p.stepsPerSplit, (p.kBytes + Row - 1) / Row - firstStep);

        // What this thread copies: the same chunk of every copyRows-th row.
        const int copyRow = thread / chunks, copyChunk = thread % chunks;
        const int leftM = p.m - firstM - copyRow, leftN = p.n - firstN - copyRow;
        const char* fromA = p.a + (firstM + copyRow) * p.ldaBytes + (long long)firstStep * Row + copyChunk * 16;
        const char* fromB = p.b + (firstN + copyRow) * p.ldbBytes + (long long)firstStep * Row + copyChunk * 16;
        int leftK = p.kBytes - firstStep * Row - copyChunk * 16;
        const unsigned copyTo = base + copyRow * Row + (copyChunk ^ swizzle(copyRow)) * 16;
        unsigned writeStage = 0;
        int toLoad = steps;

        [[maybe_unused]] uint4 onTheWay[ASYNC ? 1 : copiesA + copiesB]; // to the stage that is written next
        auto copy = [&](int i, unsigned to, const char* from, bool exists) {
            if constexpr (ASYNC)
                copy16(to, from, exists);
            else
                onTheWay[i] = exists ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
        };

        // load begins to copy a stage, and land ends it: where registers are in between, it stores them.
        auto load = [&] {
            if (toLoad > 0) {
                const unsigned to = copyTo + writeStage;
#pragma unroll
                for (int i = 0; i < copiesA; i++)
                    copy(i, to + i * copyRows * Row, fromA + i * copyRows * p.ldaBytes, leftK > 0 && i * copyRows < leftM);
#pragma unroll
                for (int i = 0; i < copiesB; i++)
                    copy(copiesA + i, to + bytesA + i * copyRows * Row, fromB + i * copyRows * p.ldbBytes,
                         leftK > 0 && i * copyRows < leftN);
                fromA += Row;
                fromB += Row;
                leftK -= Row;
                toLoad--;
                if constexpr (ASYNC) writeStage = writeStage == (Stages - 1) * stageBytes ? 0 : writeStage + stageBytes;
            }
            if constexpr (ASYNC) copyCommit();
        };
        auto land = [&] {
            if constexpr (ASYNC) {
                copyWait<Stages - 2>();
            } else {
#pragma unroll
                for (int i = 0; i < copiesA + copiesB; i++) storeChunk(copyTo + writeStage + i * copyRows * Row, onTheWay[i]);
                writeStage ^= stageBytes;
            }
            __syncthreads();
        };

        // What this thread reads: ldmatrix takes the addresses of 32 rows of 16 bytes.
        // A: rows 0-15 at the first chunk of a unit, then at the second. B: rows 0-7
        // at the first chunk, at the second, and rows 8-15 likewise.
        const int rowA = warp / WarpsN * warpM + lane % 16;
        const int rowB = warp % WarpsN * warpN + lane % 8 + lane / 16 * 8;
        const unsigned readA = base + rowA * Row, swizzledA = (lane / 16 ^ swizzle(rowA)) * 16;
        const unsigned readB = base + bytesA + rowB * Row, swizzledB = (lane / 8 % 2 ^ swizzle(rowB)) * 16;
        unsigned a[2][tilesA][4], b[2][tilesB / 2][4];
        auto fragments = [&](int slot, unsigned stage, int unit) {
            const unsigned atA = readA + stage + (swizzledA ^ unit * 32), atB = readB + stage + (swizzledB ^ unit * 32);
#pragma unroll
            for (int i = 0; i < tilesA; i++) loadMatrices(a[slot][i], atA + i * 16 * Row);
#pragma unroll
            for (int j = 0; j < tilesB / 2; j++) loadMatrices(b[slot][j], atB + j * 16 * Row);
        };

#pragma unroll 1
        for (int s = 0; s < Stages - 1; s++) load();
        land();
        unsigned readStage = 0;
        fragments(0, readStage, 0);

#pragma unroll 1
        for (int step = 0; step < steps; step++) {
#pragma unroll
            for (int unit = 0; unit < units; unit++) {
                if (unit == units - 1) {
                    // The next stage has landed, for every thread, and this one was read.
                    land();
                    readStage = readStage == (Stages - 1) * stageBytes ? 0 : readStage + stageBytes;
                }
                fragments((unit + 1) % 2, readStage, (unit + 1) % units);
                if (unit == 0) load();
#pragma unroll
                for (int i = 0; i < tilesA; i++)
#pragma unroll
                    for (int j = 0; j < tilesB; j++)
                        multiply<T>(acc[i][j], a[unit % 2][i], b[unit % 2][j / 2][j % 2 * 2], b[unit % 2][j / 2][j % 2 * 2 + 1]);
            }
        }
        if constexpr (ASYNC) copyWait<0>();
        __syncthreads();
    }

    // reduce leaves this block's sum in scratch; in the last block of a tile it
    // returns true with the sum of all of them.
    __device__ __forceinline__ bool reduce(const Params& p, char* shared, int tile, int split) {
        constexpr int quads = tilesA * tilesB;
        float4* const all = p.partial + (long long)tile * p.splits * quads * threads + threadIdx.x;
        float4* const own = all + (long long)split * quads * threads;
#pragma unroll
        for (int i = 0; i < tilesA; i++)
#pragma unroll
            for (int j = 0; j < tilesB; j++) {
                const Acc(&v)[4] = acc[i][j];
                own[(i * tilesB + j) * threads] = make_float4(asFloat(v[0]), asFloat(v[1]), asFloat(v[2]), asFloat(v[3]));
            }
        // The barriers carry the order from thread to thread, the counter from block to
        // block: one thread's release and acquire serve all.
        __syncthreads();
        volatile unsigned* const last = reinterpret_cast<volatile unsigned*>(shared);
        if (threadIdx.x == 0) {
            unsigned before;
            asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(p.arrived + tile) : "memory");
            *last = before == p.splits - 1;
            if (before == p.splits - 1) p.arrived[tile] = 0;
        }
        __syncthreads();
        if (!*last) return false;
#pragma unroll
        for (int i = 0; i < tilesA; i++)
#pragma unroll
            for (int j = 0; j < tilesB; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
            }
        for (int s = 0; s < p.splits; s++) {
#pragma unroll
            for (int i = 0; i < tilesA; i++)
#pragma unroll
                for (int j = 0; j < tilesB; j++) {
                    const float4 v = __ldcg(all + ((long long)s * quads + i * tilesB + j) * threads);
                    addTo(acc[i][j][0], v.x);
                    addTo(acc[i][j][1], v.y);
                    addTo(acc[i][j][2], v.z);
                    addTo(acc[i][j][3], v.w);
                }
        }
        __syncthreads(); // the flag lies where the slabs will
        return true;
    }

    // store writes the tile through a slab of 16 rows a warp, whose rows then go
    // out in pieces of 16 bytes, or element by element where C does not allow that.
    __device__ __forceinline__ void store(const Params& p, unsigned base, int firstM, int firstN) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int row0 = firstM + warp / WarpsN * warpM, column0 = firstN + warp % WarpsN * warpN;
        const unsigned slab = base + warp * slabBytes;
        const unsigned put = slab + lane / 4 * slabRow + lane % 4 * 2 * outSize;
        const int columns = min(warpN, p.n - column0);
        GA_MMA_BEFORE_STORE(p, acc, column0 + lane % 4 * 2, Traits<T>{});
#pragma unroll
        for (int i = 0; i < tilesA; i++) {
#pragma unroll
            for (int j = 0; j < tilesB; j++) {
                storePair<T>(put + j * 8 * outSize, acc[i][j][0], acc[i][j][1]);
                storePair<T>(put + j * 8 * outSize + 8 * slabRow, acc[i][j][2], acc[i][j][3]);
            }
            __syncwarp();
            const int rows = min(16, p.m - row0 - i * 16);
            char* const out = p.c + ((row0 + i * 16) * p.ldc + column0) * outSize;
            constexpr int perPiece = 16 / outSize, pieces = warpN / perPiece, perPass = 32 / pieces;
            const int piece = lane % pieces;
            const int whole = p.vectorC ? columns / perPiece : 0;
#pragma unroll
            for (int r = lane / pieces; r < 16; r += perPass) {
                if (r < rows && piece < whole) {
                    float4 v;
                    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                                 : "r"(slab + r * slabRow + piece * 16)
                                 : "memory");
                    GA_MMA_BEFORE_PUT(p, out + r * p.ldc * outSize + piece * 16, v, Traits<T>{});
                    *reinterpret_cast<float4*>(out + r * p.ldc * outSize + piece * 16) = v;
                }
            }
            if (whole * perPiece < columns) scalars(p, slab, out, rows, whole * perPiece, columns);
            __syncwarp();
        }
    }

    // scalars stores the columns from first on, neighbouring lanes side by side.
    static __device__ __forceinline__ void scalars(const Params& p, unsigned slab, char* out, int rows, int first, int columns) {
        const int lane = threadIdx.x % 32;
#pragma unroll 1
        for (int r = 0; r < rows; r++) {
#pragma unroll 1
            for (int c = first + lane; c < columns; c += 32) {
                const unsigned from = slab + r * slabRow + c * outSize;
                char* const to = out + (r * p.ldc + c) * outSize;
                if constexpr (outSize == 2) {
                    unsigned short v;
                    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(from) : "memory");
                    *reinterpret_cast<unsigned short*>(to) = GA_MMA_ELEMENT(p, to, v, Traits<T>{});
                } else {
                    unsigned v;
                    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
                    *reinterpret_cast<unsigned*>(to) = v;
                }
            }
        }
    }
};

} // namespace ga_mma
