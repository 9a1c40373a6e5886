// How a consumer's sums leave its registers: to C, or to the one who finishes their tile.
#pragma once

#include "hopper_handover.cuh"
#include "hopper_walk.cuh"
#include "pair.cuh"

namespace {

// The types of C. pack makes two sums 16-bit elements.
struct HalfOut {
    using type = uint16_t;
    static __device__ __forceinline__ uint32_t pack(float lo, float hi) { return packPair<false>(lo, hi); }
};
struct BfloatOut {
    using type = uint16_t;
    static __device__ __forceinline__ uint32_t pack(float lo, float hi) { return packPair<true>(lo, hi); }
};
struct FloatOut {
    using type = float;
};
struct IntOut {
    using type = int;
};

// storeShared2 writes two sums side by side.
__device__ __forceinline__ void storeShared2(uint32_t to, float x, float y) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}
__device__ __forceinline__ void storeShared2(uint32_t to, int x, int y) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(x), "r"(y) : "memory");
}

// Sums are those of one consumer: MMAS blocks of 64 rows by WIDTH columns, as wgmma holds
// them. boxesAt is where the boxes of all warps lie in shared memory, box which of a
// warp's is next.
template <class Acc, class Out, int MMAS, int WIDTH>
struct Sums {
    using Element = typename Out::type;
    static constexpr int BOX_COLS = STEP_BYTES / static_cast<int>(sizeof(Element));

    // store writes the sums to C. Each warp sends its 16 rows by itself, in boxes of 128
    // bytes a row. The last box ends with the tile, over part of the one before it.
    static __device__ __forceinline__ void store(const HopperParams &p, uint32_t boxesAt, Acc (&sum)[MMAS][WIDTH / 2], int row, int col,
                                                 int &box) {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - 4;
        row += (warp % 4) * BOX_ROWS;
        uint32_t boxes = boxesAt + warp * (BOXES * BOX_BYTES);
        constexpr int LAST = WIDTH - BOX_COLS;
#pragma unroll
        for (int mma = 0; mma < MMAS; ++mma) {
            if (row + mma * 64 >= p.rows) break;
#pragma unroll
            for (int part = 0; part < WIDTH; part += BOX_COLS) {
                const int first = part < LAST ? part : LAST;
                if (lane == 0) waitStoresRead<BOXES - 1>();
                __syncwarp();
                uint32_t to = boxes + box * BOX_BYTES;
                if constexpr (sizeof(Element) == 2) {
                    // Lane l addresses row l%16 of columns 8·(l/16) and the next 8.
                    uint32_t line = to + (lane % 16) * STEP_BYTES;
#pragma unroll
                    for (int j = 0; j < BOX_COLS / 16; ++j) {
                        Acc *d = &sum[mma][first / 2 + 8 * j];
                        uint32_t chunk = (2 * j + lane / 16) ^ (lane % 8);
                        storeMatrices4(line + chunk * 16, Out::pack(d[0], d[1]), Out::pack(d[2], d[3]), Out::pack(d[4], d[5]),
                                       Out::pack(d[6], d[7]));
                    }
                } else {
                    uint32_t line = to + (lane / 4) * STEP_BYTES + (lane % 2) * 8;
#pragma unroll
                    for (int j = 0; j < BOX_COLS / 8; ++j) {
                        Acc *d = &sum[mma][first / 2 + 4 * j];
                        uint32_t chunk = (2 * j + lane % 4 / 2) ^ (lane / 4);
                        storeShared2(line + chunk * 16, d[0], d[1]);
                        storeShared2(line + 8 * STEP_BYTES + chunk * 16, d[2], d[3]);
                    }
                }
                if (!p.aligned) {
                    __syncwarp();
                    copyBox(p, to, row + mma * 64, p.rows, col + first, p.cols);
                    continue;
                }
                sharedToAsync();
                __syncwarp();
                if (lane == 0) {
                    storeBox(&p.c, to, col + first, row + mma * 64);
                    commitStores();
                }
                box ^= 1;
            }
        }
    }

    // storeTransposed does so in a transposed kernel, where C's rows are the columns of the
    // sums. The warpgroup's four warps hold 16 of the 64 elements of a box's row each, so
    // they fill four boxes together and send one each.
    static __device__ __forceinline__ void storeTransposed(const HopperParams &p, uint32_t boxesAt, Acc (&sum)[MMAS][WIDTH / 2], int row,
                                                           int col, int &box) {
        int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, consumer = threadIdx.x / GROUP - 1;
        uint32_t boxes = boxesAt + consumer * (4 * BOXES * BOX_BYTES);
        constexpr int LAST = WIDTH - BOX_ROWS;
#pragma unroll
        for (int mma = 0; mma < MMAS; ++mma) {
            if (row + mma * 64 >= p.rows) break;
#pragma unroll
            for (int part = 0; part < WIDTH; part += 4 * BOX_ROWS) {
                if (lane == 0) waitStoresRead<BOXES - 1>();
                groupSync(GROUP_BARRIER + consumer, GROUP);
                uint32_t to = boxes + box * (4 * BOX_BYTES);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (part + i * BOX_ROWS >= WIDTH) break;
                    const int first = part + i * BOX_ROWS < LAST ? part + i * BOX_ROWS : LAST;
                    Acc *d = &sum[mma][first / 2];
                    // Lane l addresses row 8·(l/16) + l%8 of this warp's columns 8·(l/8%2) and the next 8.
                    uint32_t line = to + i * BOX_BYTES + (lane / 16 * 8 + lane % 8) * STEP_BYTES;
                    uint32_t chunk = (2 * warp + lane / 8 % 2) ^ (lane % 8);
                    storeMatrices4Transposed(line + chunk * 16, Out::pack(d[0], d[1]), Out::pack(d[2], d[3]), Out::pack(d[4], d[5]),
                                             Out::pack(d[6], d[7]));
                }
                if (p.aligned) sharedToAsync();
                groupSync(GROUP_BARRIER + consumer, GROUP);
                int first = min(part + warp * BOX_ROWS, LAST);
                if (part + warp * BOX_ROWS < WIDTH && col + first < p.cols) {
                    uint32_t from = to + warp * BOX_BYTES;
                    if (!p.aligned)
                        copyBox(p, from, col + first, p.cols, row + mma * 64, p.rows);
                    else if (lane == 0)
                        storeBox(&p.c, from, row + mma * 64, col + first);
                }
                if (lane == 0) commitStores();
                box ^= 1;
            }
        }
    }

    // copyBox is storeBox for a C that is not aligned to 16 bytes: element by element, from
    // row and col of a matrix of the given extent.
    static __device__ __noinline__ void copyBox(const HopperParams &p, uint32_t from, int row, int rowsEnd, int col, int colsEnd) {
        int lane = threadIdx.x % 32;
        int rows = min(BOX_ROWS, rowsEnd - row), cols = min(BOX_COLS, colsEnd - col);
#pragma unroll 1
        for (int r = 0; r < rows; ++r) {
            Element *line = static_cast<Element *>(p.out) + (row + r) * p.ldc + col;
#pragma unroll
            for (int c = lane; c < BOX_COLS; c += 32)
                if (c < cols) {
                    uint32_t byte = c * sizeof(Element);
                    uint32_t at = from + r * STEP_BYTES + (byte ^ (r % 8) << 4);
                    if constexpr (sizeof(Element) == 2) {
                        uint16_t v;
                        asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at));
                        line[c] = v;
                    } else {
                        uint32_t v;
                        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
                        reinterpret_cast<uint32_t *>(line)[c] = v;
                    }
                }
        }
    }

    // Where the sums of a consumer lie: by block, consumer, then element and thread.
    static __device__ __forceinline__ float4 *slot(const HopperParams &p, int block, int consumer) {
        return reinterpret_cast<float4 *>(p.partial) + (block * CONSUMERS + consumer) * (MMAS * WIDTH / 8) * GROUP + threadIdx.x % GROUP;
    }

    static __device__ __forceinline__ void keep(const HopperParams &p, int block, int consumer, Acc (&sum)[MMAS][WIDTH / 2]) {
        putPartial<MMAS * WIDTH / 8>(slot(p, block, consumer), &sum[0][0]);
        GA_HAND_OVER(GROUP_BARRIER + consumer, p.ready + block * CONSUMERS + consumer);
    }

    static __device__ __forceinline__ void take(const HopperParams &p, int block, int consumer, Acc (&sum)[MMAS][WIDTH / 2]) {
        if (threadIdx.x % GROUP == 0) {
            awaitHandOver(p.ready + block * CONSUMERS + consumer);
        }
        groupSync(GROUP_BARRIER + consumer, GROUP);
        addPartial<MMAS * WIDTH / 8>(slot(p, block, consumer), &sum[0][0]);
    }
};

} // namespace
