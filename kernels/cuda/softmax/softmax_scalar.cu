// arch: 75 80 86 89 90a ptx90 100 120
//
// softmax_scalar: short rows in registers, each by a warp, element by element. Compute capability 7.5 and
// up.
//
// Threads   128 a block. A warp has `rows` rows at a time, a lane every 32nd element of each, up to
//           `elements`: a lane's neighbour has the next column, wherever the row begins.
// In flight All of a warp's rows. Registers are so few that as many warps run as the multiprocessor takes, or
//           nearly: with 4 bytes an element, that keeps memory as busy as 16 bytes at once do.
// Memory    Each element once in, once out. Sectors in which one access ends and the next begins stay in L1.
// Meeting   Shuffles within the warp; no shared memory, no barrier.

#include "softmax.cuh"
#include "softmax_scalar_tiles.cuh"

namespace ga_softmax_scalar {

constexpr int THREADS = 128, WARPS = THREADS / 32;

// blocksAtOnce is how many blocks a multiprocessor is to run, of so many elements to a thread.
template <int HELD>
constexpr int blocksAtOnce = HELD <= 16 ? 12 : 10;

template <int ELEMENTS, int ROWS>
__device__ __forceinline__ void run(const SoftmaxParams& p) {
    const int lane = threadIdx.x % 32, columns = p.columns;
    const int first = (blockIdx.x * WARPS + threadIdx.x / 32) * ROWS;
    dependentsMayStart();
    waitForPredecessor();
    if (first >= p.rows) return;
    const int64_t at = static_cast<int64_t>(first) * columns + lane;
    const float* const in = static_cast<const float*>(p.in) + at;
    float* const out = static_cast<float*>(p.out) + at;

    float x[ROWS][ELEMENTS], top[ROWS], sum[ROWS];
    int seen[ROWS]; // from this lane's first column on
    const int left = columns - lane;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        seen[r] = first + r < p.rows ? seenOf(p, first + r) - lane : 0;
#pragma unroll
        for (int i = 0; i < ELEMENTS; i++) x[r][i] = i * 32 < seen[r] ? in[r * columns + i * 32] : lowest();
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        top[r] = x[r][0];
#pragma unroll
        for (int i = 1; i < ELEMENTS; i++) top[r] = fmaxf(top[r], x[r][i]);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) top[r] = largestOf<32>(top[r]);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float base = baseOf(top[r]);
        sum[r] = 0;
        if (p.log) {
#pragma unroll
            for (int i = 0; i < ELEMENTS; i++) sum[r] += weightOfLogit(x[r][i], base, p.scale2);
        } else {
#pragma unroll
            for (int i = 0; i < ELEMENTS; i++) {
                x[r][i] = weightOfLogit(x[r][i], base, p.scale2);
                sum[r] += x[r][i];
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r] = sumOf<32>(sum[r]);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (p.log) {
            const float subtract = logf(sum[r]);
#pragma unroll
            for (int i = 0; i < ELEMENTS; i++) x[r][i] = i * 32 < seen[r] ? (x[r][i] - top[r]) * p.scale - subtract : lowest();
        } else {
            const float factor = reciprocal(sum[r]);
#pragma unroll
            for (int i = 0; i < ELEMENTS; i++) x[r][i] *= factor;
            if (seen[r] < left) { // NaN makes no other weight but those that are seen
#pragma unroll
                for (int i = 0; i < ELEMENTS; i++) {
                    if (i * 32 >= seen[r]) x[r][i] = 0;
                }
            }
        }
        if (first + r >= p.rows) return;
#pragma unroll
        for (int i = 0; i < ELEMENTS; i++) {
            float* const to = out + r * columns + i * 32;
            if (i * 32 >= left) continue;
            if (p.stream)
                __stcs(to, x[r][i]);
            else
                *to = x[r][i];
        }
    }
}

#define SOFTMAX_SCALAR(name, elements, rows)                                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, blocksAtOnce<elements * rows>)                \
        ga_softmax_scalar_##name##_##elements##x##rows(const __grid_constant__ SoftmaxParams p) {       \
        run<elements, rows>(p);                                                                        \
    }

GA_SOFTMAX_SCALAR_TILES(SOFTMAX_SCALAR, fp32)

}  // namespace ga_softmax_scalar
