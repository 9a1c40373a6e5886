// What a launch of hopper.cu is told, and where its tiles lie.
#pragma once

#include "hopper_stream.cuh"
#include "ptx.cuh"
#include "raster.cuh"

namespace {

constexpr int STEP_BYTES = 128; // of K, the width of the swizzle
constexpr int CONSUMERS = 2;
constexpr int GROUP = 128; // threads of a warpgroup
constexpr int BOX_ROWS = 16; // of C: one warp's part of a wgmma
constexpr int BOX_BYTES = BOX_ROWS * STEP_BYTES;
constexpr int BOXES = 2; // a warp
constexpr int GROUP_BARRIER = 2; // and 3: one for each consumer

} // namespace

struct HopperParams {
    TensorMap a, b, c; // what lies on wgmma's rows and on its columns; C
    void *out;         // C
    int64_t ldc;       // in elements
    float *partial;    // sums of cut tiles, by block
    uint32_t *ready;   // and whether they are there, by consumer; zero between launches
    int rows, cols;    // extent of a and of b: M and N, or N and M in a transposed kernel
    int steps;         // steps of K
    int rowTiles, colTiles; // of the cluster's tile
    int groupRows;          // rows of tiles that are walked together
    Cut cut;                // which of the tiles are cut along K
    int pairRows;           // a cluster's blocks lie 1: below each other, sharing b; 0: side by side, sharing a
    int lead;               // of the first consumer, in steps; less than there are stages
    int aligned;            // C to 16 bytes, its rows too
};

namespace {

// place finds the tile's row and column: every second group is walked from the right, so that
// it finds the last one's columns in L2.
__device__ __forceinline__ void place(const HopperParams &p, int tile, int &row, int &col) {
    const Raster<unsigned> at(tile, p.groupRows, p.rowTiles, p.colTiles);
    row = at.row;
    col = at.group & 1 ? p.colTiles - 1 - at.column : at.column;
}

} // namespace
