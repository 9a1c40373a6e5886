// arch: 75 80 86 89 90a ptx90 100 120
//
// softmax_warp: short rows in registers, each by a warp or a part of one. Compute capability
// 7.5 and up.
//
// Threads   128 a block. A group of `lanes` lanes has a row at a time, each lane up to
//           `vectors` pieces of 16 bytes of it; a piece is the neighbour lane's neighbour, and a
//           group's row that of the group beside it: a warp reads one stretch of memory.
// In flight A group takes up to `ROWS` rows at once, so that a lane has 64 bytes or more under
//           way before it waits: 64 KiB and more on a multiprocessor. A launch of few rows takes
//           one each, to have more blocks.
// Memory    Each element once in, once out.
// Meeting   Shuffles within the group; no shared memory, no barrier.

#include "softmax.cuh"
#include "softmax_warp_tiles.cuh"

namespace ga_softmax_warp {

constexpr int THREADS = 128;

template <class T, Form FORM, int LANES, int VECTORS, int ROWS>
__device__ __forceinline__ void run(const SoftmaxParams& p) {
    constexpr int GROUPS = THREADS / LANES;
    const int lane = threadIdx.x % LANES;
    const int first = blockIdx.x * (GROUPS * p.each) + threadIdx.x / LANES;
    dependentsMayStart();
    waitForPredecessor();

    uint4 x[ROWS][VECTORS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const Row<T, FORM> row(p, r < p.each ? first + r * GROUPS : p.rows);
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
            if (lane + j * LANES < row.visible) x[r][j] = row.load(lane + j * LANES);
        }
    }
    Weights w[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const Row<T, FORM> row(p, r < p.each ? first + r * GROUPS : p.rows);
        w[r] = {lowest(), 0};
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
            if (lane + j * LANES >= row.visible) continue;
            row.mask(x[r][j], lane + j * LANES);
            w[r].top = largestIn<T>(w[r].top, x[r][j]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) w[r].top = largestOf<LANES>(w[r].top);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const Row<T, FORM> row(p, r < p.each ? first + r * GROUPS : p.rows);
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
            if (lane + j * LANES < row.visible) w[r].sum += weightsIn<T>(x[r][j], baseOf(w[r].top), p.scale2);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) w[r].sum = sumOf<LANES>(w[r].sum);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const Row<T, FORM> row(p, r < p.each ? first + r * GROUPS : p.rows);
        const Outcome outcome(p, w[r]);
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
            if (lane + j * LANES < row.pieces) row.store(lane + j * LANES, outcome.of<T>(x[r][j]), outcome.fill, p.stream);
        }
    }
}

#define SOFTMAX_WARP(name, T, suffix, form, lanes, vectors, rows)                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, 8)                                               \
        ga_softmax_warp_##name##suffix##_##lanes##x##vectors(const __grid_constant__ SoftmaxParams p) {    \
        run<T, form, lanes, vectors, rows>(p);                                                            \
    }
#define SOFTMAX_WARP_OF(name, T)                             \
    GA_SOFTMAX_WARP_TILES(SOFTMAX_WARP, name, T, , Form::ANY)          \
    GA_SOFTMAX_WARP_TILES(SOFTMAX_WARP, name, T, _whole, Form::WHOLE) 

SOFTMAX_TYPES(SOFTMAX_WARP_OF)

}  // namespace ga_softmax_warp
