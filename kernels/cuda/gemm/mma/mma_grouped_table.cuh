// Which rows and tiles a launch of mma_grouped.cuh has.
#pragma once

#include "ampere.cuh"
#include "raster.cuh"

namespace ga_mma {

struct GroupedParams {
    const char* weights;    // of all groups below each other
    const char* tokens;     // rows of A
    char* c;
    float4* partial;        // [tile][split][fragment][thread], split-K only
    unsigned* flags;        // tiles that were taken, blocks that are done, then one counter a tile; zero before and after
    const int* sizes;       // of each group, in rows
    long long weightsBytes; // of a row, a multiple of 16
    long long tokensBytes;  // of a row, a multiple of 16
    long long ldc;          // in elements
    int rows;               // of weights in a group: N
    int kBytes;             // of a row, a multiple of 16
    int groups;
    int stride;        // from one group's first row to the next one's; 0: they follow each other
    int rowTiles;      // of a group
    int splits;        // ranges of K
    int stepsPerSplit; // steps of K in a range
    int stages;        // of the ring
    int vectorC;       // C and ldc allow 16-byte stores
};

constexpr int LINE = 16;      // tiles in the line: more than a ring has stages
constexpr int MOST_BAND = 16; // tiles of tokens that are walked together

// Piece is a tile, or a range of K of one.
struct alignas(16) Piece {
    int tile;    // below 0: there is none
    int split;
    int weights; // first row in the group
    int above;   // rows of weights of the groups before
    int token;   // first row of A
    int last;    // the group's rows of A end here
    int width;   // tokens, a multiple of 16
    int unused;
};

// GroupTable is where each group's rows and tiles begin, in shared memory.
template <int ROWS, int MOST, int THREADS>
struct GroupTable {
    const GroupedParams& p;
    int *first, *tiles; // rows and tiles of the groups before each; one entry more

    __device__ __forceinline__ GroupTable(const GroupedParams& p, void* at)
        : p(p), first(static_cast<int*>(at)), tiles(first + p.groups + 1) {}

    static __device__ __forceinline__ int tilesOf(int size) { return (size + MOST - 1) / MOST; }

    // fill adds up the sizes, each thread those of a run of groups. sums has a word for each warp, twice.
    __device__ __forceinline__ void fill(int* sums) {
        const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
        const int each = (p.groups + THREADS - 1) / THREADS, from = min(thread * each, p.groups), to = min(from + each, p.groups);
        int rows = 0, count = 0;
#pragma unroll 1
        for (int g = from; g < to; g++) {
            const int size = __ldg(p.sizes + g);
            rows += size;
            count += tilesOf(size) * p.rowTiles;
        }
        int rowsBefore = rows, before = count;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const int r = __shfl_up_sync(~0u, rowsBefore, d), t = __shfl_up_sync(~0u, before, d);
            if (lane >= d) {
                rowsBefore += r;
                before += t;
            }
        }
        if (lane == 31) {
            sums[2 * warp] = rowsBefore;
            sums[2 * warp + 1] = before;
        }
        __syncthreads();
#pragma unroll 1
        for (int w = 0; w < warp; w++) {
            rowsBefore += sums[2 * w];
            before += sums[2 * w + 1];
        }
        rowsBefore -= rows;
        before -= count;
#pragma unroll 1
        for (int g = from; g < to; g++) {
            const int size = __ldg(p.sizes + g);
            first[g] = rowsBefore;
            tiles[g] = before;
            rowsBefore += size;
            before += tilesOf(size) * p.rowTiles;
        }
        if (to == p.groups && from < to) {
            first[to] = rowsBefore;
            tiles[to] = before;
        }
        __syncthreads();
    }

    // find is piece number n of all.
    __device__ __forceinline__ Piece find(int n) const {
        Piece piece = {-1, 0, 0, 0, 0, 0, 0, 0};
        if (n >= tiles[p.groups] * p.splits) return piece;
        const int tile = n / p.splits;
        int low = 0, high = p.groups; // tiles[low] <= tile < tiles[high]
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (tiles[middle] <= tile)
                low = middle;
            else
                high = middle;
        }
        const int size = first[low + 1] - first[low], across = tilesOf(size);
        const int bands = (across + MOST_BAND - 1) / MOST_BAND, band = (across + bands - 1) / bands;
        const Raster<unsigned> at(tile - tiles[low], band, across, p.rowTiles);
        const int begin = p.stride > 0 ? low * p.stride : first[low];
        piece.tile = tile;
        piece.split = n % p.splits;
        piece.weights = at.column * ROWS;
        piece.above = low * p.rows;
        piece.width = ((size + across - 1) / across + 15) / 16 * 16;
        piece.token = begin + at.row * piece.width;
        piece.last = begin + size;
        return piece;
    }
};

} // namespace ga_mma
