// How a consumer's sums leave its registers: to C, or to the one who finishes their tile.
#pragma once

#include "hopper_handover.cuh"
#include "hopper_walk.cuh"
#include "pair.cuh"

namespace {

// The types of C. pack makes two sums 16-bit elements. DIRECT says that they leave from registers.
struct HalfOut {
    using type = uint16_t;
    static constexpr bool DIRECT = false;
    static __device__ __forceinline__ uint32_t pack(float lo, float hi) { return packPair<false>(lo, hi); }
};
struct BfloatOut {
    using type = uint16_t;
    static constexpr bool DIRECT = false;
    static __device__ __forceinline__ uint32_t pack(float lo, float hi) { return packPair<true>(lo, hi); }
};
struct FloatOut {
    using type = float;
    static constexpr bool DIRECT = false;
};
struct IntOut {
    using type = int;
    static constexpr bool DIRECT = true;
};

// storeShared2 writes two sums side by side.
__device__ __forceinline__ void storeShared2(uint32_t to, float x, float y) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}

// storeWords writes four sums to C, side by side, of which columns `left` and on are not there.
// Where rows of C are not aligned to 16 bytes they go one by one. Assembly keeps the conditions
// out of registers.
__device__ __forceinline__ void storeWords(int *to, int a, int b, int c, int d, int left, int aligned) {
    asm volatile(
        "{\n"
        ".reg .pred all, one;\n"
        "setp.gt.s32 one, %5, 0;\n"
        "setp.ne.and.b32 all, %6, 0, one;\n"
        "@all st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};\n"
        "setp.eq.and.b32 one, %6, 0, one;\n"
        "@one st.global.b32 [%0], %1;\n"
        "setp.gt.and.s32 one, %5, 1, one;\n"
        "@one st.global.b32 [%0 + 4], %2;\n"
        "setp.gt.and.s32 one, %5, 2, one;\n"
        "@one st.global.b32 [%0 + 8], %3;\n"
        "setp.gt.and.s32 one, %5, 3, one;\n"
        "@one st.global.b32 [%0 + 12], %4;\n"
        "}" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d), "r"(left), "r"(aligned) : "memory");
}

// Sums are those of one consumer: MMAS blocks of 64 rows by WIDTH columns, as wgmma holds
// them; SHARES consumers share a tile. boxesAt is where the boxes of all warps lie in shared
// memory, box which of a warp's is next.
template <class Acc, class Out, int MMAS, int WIDTH, int SHARES>
struct Sums {
    using Element = typename Out::type;
    static constexpr int BOX_COLS = STEP_BYTES / static_cast<int>(sizeof(Element));
    // Integers leave without boxes. Floats can't: for what looks at their bits, as a shuffle does,
    // the compiler waits after each wgmma.
    static constexpr bool DIRECT = Out::DIRECT;
    static constexpr int BOXES_BYTES = DIRECT ? 0 : 4 * BOXES * BOX_BYTES; // of a consumer
    static_assert(!DIRECT || WIDTH % 16 == 0, "sums are written in pairs of eight columns");

    // storeDirect writes integers to C from registers. Of a row of eight columns a lane
    // has two, of the next eight two more: it changes two with its neighbour, so that each
    // lane has four side by side, and four lanes 64 bytes of a row.
    static __device__ __forceinline__ void storeDirect(const HopperParams &p, Acc (&sum)[MMAS][WIDTH / 2], int row, int col) {
        const int lane = threadIdx.x % 32;
        const bool odd = lane % 2;
        row += threadIdx.x / 32 % 4 * BOX_ROWS + lane / 4;
        col += lane % 4 / 2 * 4 + (odd ? 8 : 0);
#pragma unroll
        for (int mma = 0; mma < MMAS; ++mma) {
            Element *line = static_cast<Element *>(p.out) + (row + mma * 64) * p.ldc + col, *below = line + 8 * p.ldc;
            const int left = row + mma * 64 < p.rows ? p.cols - col : 0, leftBelow = row + mma * 64 + 8 < p.rows ? p.cols - col : 0;
#pragma unroll
            for (int j = 0; j < WIDTH / 8; j += 2) {
                const Acc *d = &sum[mma][4 * j], *e = d + 4;
                Acc got[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) got[i] = __shfl_xor_sync(0xffffffff, odd ? d[i] : e[i], 1);
                storeWords(line + 8 * j, odd ? got[0] : d[0], odd ? got[1] : d[1], odd ? e[0] : got[0], odd ? e[1] : got[1],
                           left - 8 * j, p.aligned);
                storeWords(below + 8 * j, odd ? got[2] : d[2], odd ? got[3] : d[3], odd ? e[2] : got[2], odd ? e[3] : got[3],
                           leftBelow - 8 * j, p.aligned);
            }
        }
    }

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

    // Where the sums of a part of a block's tile lie: by block, part, then element and thread.
    static __device__ __forceinline__ float4 *slot(const HopperParams &p, int block, int part) {
        return reinterpret_cast<float4 *>(p.partial) + (block * SHARES + part) * (MMAS * WIDTH / 8) * GROUP + threadIdx.x % GROUP;
    }

    static __device__ __forceinline__ void keep(const HopperParams &p, int block, int part, int barrier, Acc (&sum)[MMAS][WIDTH / 2]) {
        putPartial<MMAS * WIDTH / 8>(slot(p, block, part), &sum[0][0]);
        GA_HAND_OVER(barrier, p.ready + block * SHARES + part);
    }

    static __device__ __forceinline__ void take(const HopperParams &p, int block, int part, int barrier, Acc (&sum)[MMAS][WIDTH / 2]) {
        if (threadIdx.x % GROUP == 0) {
            awaitHandOver(p.ready + block * SHARES + part);
        }
        groupSync(barrier, GROUP);
        addPartial<MMAS * WIDTH / 8>(slot(p, block, part), &sum[0][0]);
    }
};

} // namespace
