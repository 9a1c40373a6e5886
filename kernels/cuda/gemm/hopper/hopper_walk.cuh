// What a launch of hopper.cu is told, and in which order its blocks do the work.
#pragma once

#include "ptx.cuh"

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
    int splitTiles;         // how many of the tiles, the first ones, are cut along K
    int pairRows;           // a cluster's blocks lie 1: below each other, sharing b; 0: side by side, sharing a
    int lead;               // of the first consumer, in steps; less than there are stages
    int aligned;            // C to 16 bytes, its rows too
};

namespace {

// Work deals out the tiles of one cluster, the same to its producer and consumers.
//
// The cut tiles form one line of splitTiles·steps steps, of which every cluster takes
// an equal stretch, and walks it backwards: the tile of which it lacks the end comes
// first, so that its sums are ready long before the tile's owner, who holds the end,
// asks for them. Whole tiles come after.
struct Work {
    int cluster, clusters, steps;
    int low, high; // what is left of the stretch
    int next;      // whole tile
    int tiles;

    int tile, begin, end; // the current piece: steps [begin, end) of tile

    // total is below 2^31 ÷ clusters.
    static __device__ __forceinline__ int bound(int cluster, int clusters, int total) {
        return static_cast<unsigned>(cluster * total) / static_cast<unsigned>(clusters);
    }

    __device__ __forceinline__ Work(const HopperParams &p, int cluster, int clusters)
        : cluster(cluster), clusters(clusters), steps(p.steps), tiles(p.rowTiles * p.colTiles) {
        int total = p.splitTiles * p.steps;
        low = high = 0;
        if (total > 0) {
            low = bound(cluster, clusters, total);
            high = bound(cluster + 1, clusters, total);
        }
        next = p.splitTiles + cluster;
    }

    __device__ __forceinline__ bool advance() {
        if (high > low) {
            tile = static_cast<unsigned>(high - 1) / static_cast<unsigned>(steps);
            int base = tile * steps;
            begin = max(low - base, 0);
            end = high - base;
            high = base + begin;
            return true;
        }
        if (next >= tiles) return false;
        tile = next;
        begin = 0;
        end = steps;
        next += clusters;
        return true;
    }
};

// place finds the tile's row and column: groups of groupRows rows, walked column by
// column, every second group from the right so that it finds the last one's columns in L2.
__device__ __forceinline__ void place(const HopperParams &p, int tile, int &row, int &col) {
    int perGroup = p.groupRows * p.colTiles;
    int group = static_cast<unsigned>(tile) / static_cast<unsigned>(perGroup);
    int inGroup = tile - group * perGroup;
    int first = group * p.groupRows;
    int rows = min(p.groupRows, p.rowTiles - first);
    col = static_cast<unsigned>(inGroup) / static_cast<unsigned>(rows);
    row = first + inGroup - col * rows;
    if (group & 1) col = p.colTiles - 1 - col;
}

} // namespace
