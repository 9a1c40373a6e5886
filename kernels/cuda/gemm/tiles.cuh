// What the kernels that compute one tile of C a block are told, and which tile a block
// has. The Go side is TileCall in tiles.go.
#pragma once

#include "numeric.cuh"
#include "raster.cuh"

struct TileParams {
    const void* a;          // row-major M×K
    const void* b;          // packed weights: N rows of K, zeros to a multiple of 16 bytes
    void* c;                // row-major M×N
    int64_t lda, ldb, ldc;  // in elements
    int32_t m, n, k;
    int32_t tilesM, tilesN;
    int32_t group;     // rows of tiles that are walked together, so that L2 holds their A
    int32_t alignedA;  // A and its rows have the alignment of the kernel's loads
};

// blockNumber and threadNumber are the special registers, read anew each time: what follows
// from them can be worked out again after a loop that has no registers to keep it in,
// where the compiler, if it knew, would keep it.
__device__ __forceinline__ int blockNumber() {
    int n;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(n));
    return n;
}

__device__ __forceinline__ int threadNumber() {
    int n;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(n));
    return n;
}

// TileOrigin is the tile of a block.
struct TileOrigin : Raster<int> {
    __device__ __forceinline__ explicit TileOrigin(const TileParams& p) : Raster(blockNumber(), p.group, p.tilesM, p.tilesN) {}
};
