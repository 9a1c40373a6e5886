// What products of quantised weights share, whatever multiplies: where tiles and records lie, and
// how the sums of a cut tile are handed over. A block has 256 threads that compute, 128 for each
// 64 rows of weights; thread t of them holds, for j = 0 … TOKENS/8-1, with r = 16·(t/32) + (t%32)/4
// and c = 8·j + 2·(t%4): sums 4j and 4j+1 at rows r and tokens c and c+1, 4j+2 and 4j+3 at row r+8.
//
// P is what a kernel is told: see the structs Params.
#pragma once

#include "hopper_handover.cuh"
#include "hopper_stream.cuh"

namespace quantised {

constexpr int ROWS = 128; // of a tile

template <class P>
__device__ __forceinline__ Walk walk(const P &p) {
    return Walk(p.cut, p.tokenTiles * p.rowTiles, p.steps, blockIdx.x, gridDim.x);
}

// Place is where a tile lies, in tiles: bands of tokens, and in each, rows of weights one after
// the other, so that blocks that run at the same time share both.
struct Place {
    int row, token;
};

template <class P>
__device__ __forceinline__ Place place(const P &p, int tile) {
    const unsigned whole = static_cast<unsigned>(p.band) * p.rowTiles;
    const unsigned first = static_cast<unsigned>(tile) / whole * p.band, within = static_cast<unsigned>(tile) % whole;
    const unsigned wide = min(static_cast<unsigned>(p.band), p.tokenTiles - first);
    return {static_cast<int>(within / wide), static_cast<int>(first + within % wide)};
}

// record is where a row of tiles' weights lie for a step.
template <int BYTES, class P>
__device__ __forceinline__ const uint8_t *record(const P &p, int row, int step) {
    return p.weights + (static_cast<int64_t>(row) * p.steps + step) * BYTES;
}

// partial is where this thread's sums of a block's partial tile lie, in units of 16 bytes that are
// 128 apart.
template <int TOKENS, class P>
__device__ __forceinline__ float4 *partial(const P &p, int block) {
    const int64_t slot = static_cast<int64_t>(block) * 2 + threadIdx.x / 128;
    return reinterpret_cast<float4 *>(p.partials) + slot * (TOKENS / 8 * 128) + threadIdx.x % 128;
}

template <class P>
__device__ __forceinline__ uint32_t *flag(const P &p, int block) {
    return p.flags + block * 2 + threadIdx.x / 128;
}

// handOver leaves the sums of a tile to the run that finishes it.
template <int TOKENS, class P>
__device__ __forceinline__ void handOver(const P &p, const float *sums) {
    putPartial<TOKENS / 8>(partial<TOKENS>(p, blockIdx.x), sums);
    GA_HAND_OVER(1 + threadIdx.x / 128, flag(p, blockIdx.x));
}

// takeOver adds what the runs before this one have of a tile.
template <int TOKENS, class P>
__device__ __forceinline__ void takeOver(const P &p, float *sums, int tile) {
    const int index = blockIdx.x;
    int first = index;
    while (p.cut.runBegin(first, gridDim.x) > tile * p.steps) first--;
    for (int i = first + threadIdx.x % 128; i < index; i += 128) awaitHandOver(flag(p, i));
    groupSync(1 + threadIdx.x / 128, 128);
    // Of few tokens the sums of several runs are on the way together; they are added in their order.
    constexpr int VECTORS = TOKENS / 8, TOGETHER = TOKENS < 64 ? 64 / TOKENS : 1;
#pragma unroll 1
    for (int i = first; i < index; i += TOGETHER) {
        float4 v[TOGETHER][VECTORS];
#pragma unroll
        for (int j = 0; j < TOGETHER; j++) {
#pragma unroll
            for (int k = 0; k < VECTORS; k++) v[j][k] = i + j < index ? __ldcg(partial<TOKENS>(p, i + j) + k * 128) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int j = 0; j < TOGETHER; j++) {
#pragma unroll
            for (int k = 0; k < VECTORS; k++) sums[4 * k] += v[j][k].x, sums[4 * k + 1] += v[j][k].y, sums[4 * k + 2] += v[j][k].z, sums[4 * k + 3] += v[j][k].w;
        }
    }
}

} // namespace quantised
