// In which order tiles of C are computed.
#pragma once

// Raster is where tile number `tile` lies: tiles in groups of `group` rows, column by column
// within a group, so that blocks that run at the same time share rows of A and of B in L2. Index
// is the type in which it divides.
template <class Index>
struct Raster {
    int group, row, column; // the group; the tile, in tiles

    __device__ __forceinline__ Raster(int tile, int groupRows, int rows, int columns) {
        const int perGroup = groupRows * columns;
        group = static_cast<Index>(tile) / static_cast<Index>(perGroup);
        const int within = static_cast<Index>(tile) % static_cast<Index>(perGroup);
        const int high = min(groupRows, rows - group * groupRows);
        row = group * groupRows + static_cast<Index>(within) % static_cast<Index>(high);
        column = static_cast<Index>(within) / static_cast<Index>(high);
    }
};
