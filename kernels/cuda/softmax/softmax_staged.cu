// arch: 75 80 86 89 90a ptx90
//
// softmax_staged: short rows that begin and end anywhere, brought to shared memory many at a
// time. Compute capability 7.5 and up.
//
// Threads   128 a block, which has `each` rows: a stretch of memory that begins and ends at multiples of 16
//           bytes, but for the end of the matrix, whatever the rows in it do. `lanes` lanes have a
//           row at a time, up to `elements` elements each: a lane's neighbour has the next column.
// In flight All of the stretch: one bulk copy each way from 9.0 on, pieces of 16 bytes elsewhere. Other blocks
//           of the multiprocessor load and store while this one computes.
// Memory    Each element once in, once out, 16 bytes and more at a time.
// Banks     Groups of a warp have rows that lie `lanes` apart. Then the warp's elements are in banks of their
//           own where a row's columns are odd, and in half as many where they are twice an odd number.
// Meeting   Shuffles within the group, two barriers for the stretch. The output takes the place of the
//           input: an element is read and written by one lane.

#include "softmax.cuh"
#include "softmax_staged_tiles.cuh"
#if __CUDA_ARCH__ >= 900
#include "bulk.cuh"
#endif

namespace ga_softmax_staged {

constexpr int THREADS = 128, WARPS = THREADS / 32;

// Stretch is a block's part of the matrix: `whole` elements in pieces of 16 bytes, and `rest` behind them
// where the matrix ends between two.
template <class T>
struct Stretch {
    const T* in;
    T* out;
    int rows, whole, rest;

    __device__ __forceinline__ explicit Stretch(const SoftmaxParams& p) {
        const int first = blockIdx.x * p.each;
        rows = min(p.each, p.rows - first);
        const int64_t at = static_cast<int64_t>(first) * p.columns;
        in = static_cast<const T*>(p.in) + at;
        out = static_cast<T*>(p.out) + at;
        const int count = rows * p.columns;
        rest = count % lanesOf<T>;
        whole = count - rest;
    }

    // fetch brings all to shared memory; all threads call it, and see all of it afterwards.
    __device__ __forceinline__ void fetch(T* to, bool stream) const {
        const int thread = threadIdx.x;
#if __CUDA_ARCH__ >= 900
        __shared__ __align__(8) uint64_t come;
        const uint32_t bar = sharedAddress(&come);
        if (thread == 0) {
            barrierInit(bar, 1);
            barrierInitFence();
        }
#endif
        // The launch after the next would take room on some multiprocessors that the next one needs.
        waitForPredecessor();
        dependentsMayStart();
#if __CUDA_ARCH__ >= 900
        if (thread == 0) {
            const uint32_t bytes = whole * static_cast<uint32_t>(sizeof(T));
            barrierExpect(bar, bytes);
            if (bytes > 0) bulkIn(sharedAddress(to), in, bytes, bar, onceIf(stream));
        }
#else
        constexpr int AT_ONCE = 4;
        const int pieces = whole / lanesOf<T>;
#pragma unroll 1
        for (int i = thread; i < pieces; i += AT_ONCE * THREADS) {
            uint4 x[AT_ONCE];
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                if (i + j * THREADS < pieces) x[j] = loadOnce(in + static_cast<int64_t>(i + j * THREADS) * lanesOf<T>);
            }
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) {
                if (i + j * THREADS < pieces) reinterpret_cast<uint4*>(to)[i + j * THREADS] = x[j];
            }
        }
#endif
        if (thread < rest) to[whole + thread] = in[whole + thread];
        __syncthreads();
#if __CUDA_ARCH__ >= 900
        barrierWait(bar, 0);
#endif
    }

    // put writes all from shared memory; all threads call it once they have written their part of it there.
    __device__ __forceinline__ void put(const T* from, bool stream) const {
        const int thread = threadIdx.x;
#if __CUDA_ARCH__ >= 900
        sharedToAsync();
        __syncthreads();
        if (thread == 0 && whole > 0) {
            bulkOut(out, sharedAddress(from), whole * static_cast<uint32_t>(sizeof(T)), onceIf(stream));
            commitStores();
        }
#else
        __syncthreads();
#pragma unroll 4
        for (int i = thread; i < whole / lanesOf<T>; i += THREADS) {
            uint4* const to = reinterpret_cast<uint4*>(out) + i;
            const uint4 piece = reinterpret_cast<const uint4*>(from)[i];
            if (stream)
                __stcs(to, piece);
            else
                *to = piece;
        }
#endif
        if (thread < rest) out[whole + thread] = from[whole + thread];
#if __CUDA_ARCH__ >= 900
        if (thread == 0) waitStoresRead<0>(); // the block's shared memory lasts as long as it does
#endif
    }
};

template <class T, int LANES, int ELEMENTS>
__device__ __forceinline__ void run(const SoftmaxParams& p) {
    extern __shared__ __align__(128) uint8_t memory[];
    T* const staged = reinterpret_cast<T*>(memory);
    const Stretch<T> stretch(p);
    stretch.fetch(staged, p.stream);

    // Rows are looked at 32 at a time, in LANES turns, of which the warps take one after the other. A lane that
    // has a row to itself has all of it: ELEMENTS columns.
    constexpr int CHUNK = LANES == 1 || ELEMENTS < 4 ? ELEMENTS : 4;
    const int columns = LANES == 1 ? ELEMENTS : p.columns;
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES;
    const int turns = (stretch.rows + 31) / 32 * LANES;
#pragma unroll 1
    for (int turn = threadIdx.x / 32; turn < turns; turn += WARPS) {
        const int first = turn / LANES * 32 + turn % LANES, number = first + group * LANES;
        if (first >= stretch.rows) continue;
        const bool there = number < stretch.rows; // or else the warp's first row is looked at, which no other warp writes
        int at = (there ? number : first) * columns + lane;
        asm volatile("" : "+r"(at)); // found once
        T* const row = staged + at;

        float x[ELEMENTS];
        float top = lowest();
#pragma unroll
        for (int c = 0; c < ELEMENTS; c += CHUNK) {
            if (c > 0 && c * LANES >= columns) continue;
            if (LANES == 1 || (c + CHUNK) * LANES <= columns) {
#pragma unroll
                for (int i = c; i < c + CHUNK; i++) x[i] = widen(row[i * LANES]);
            } else {
#pragma unroll
                for (int i = c; i < c + CHUNK; i++) x[i] = lane + i * LANES < columns ? widen(row[i * LANES]) : lowest();
            }
#pragma unroll
            for (int i = c; i < c + CHUNK; i++) top = fmaxf(top, x[i]);
        }
        top = largestOf<LANES>(top);
        const float base = baseOf(top);
        float sum = 0;
        if (LANES == 1 && ELEMENTS == 1) {
            x[0] = (x[0] - x[0]) + (p.log ? 0.0f : 1.0f); // all of the weight, or NaN of what is not finite
        } else if (p.log) {
#pragma unroll
            for (int c = 0; c < ELEMENTS; c += CHUNK) {
                if (c > 0 && c * LANES >= columns) continue;
#pragma unroll
                for (int i = c; i < c + CHUNK; i++) sum += weightOfLogit(x[i], base, p.scale2);
            }
            const float subtract = logf(sumOf<LANES>(sum));
#pragma unroll
            for (int c = 0; c < ELEMENTS; c += CHUNK) {
                if (c > 0 && c * LANES >= columns) continue;
#pragma unroll
                for (int i = c; i < c + CHUNK; i++) x[i] = (x[i] - top) * p.scale - subtract;
            }
        } else {
#pragma unroll
            for (int c = 0; c < ELEMENTS; c += CHUNK) {
                if (c > 0 && c * LANES >= columns) continue;
#pragma unroll
                for (int i = c; i < c + CHUNK; i++) {
                    x[i] = weightOfLogit(x[i], base, p.scale2);
                    sum += x[i];
                }
            }
            const float factor = reciprocal(sumOf<LANES>(sum));
#pragma unroll
            for (int c = 0; c < ELEMENTS; c += CHUNK) {
                if (c > 0 && c * LANES >= columns) continue;
#pragma unroll
                for (int i = c; i < c + CHUNK; i++) x[i] *= factor;
            }
        }
        if (LANES < 32) __syncwarp(); // groups without a row have read the first one's
#pragma unroll
        for (int c = 0; c < ELEMENTS; c += CHUNK) {
            if (c > 0 && c * LANES >= columns) continue;
            if (LANES == 1 || (c + CHUNK) * LANES <= columns) {
#pragma unroll
                for (int i = c; i < c + CHUNK; i++) {
                    if (there) row[i * LANES] = narrow<T>(x[i]);
                }
            } else {
#pragma unroll
                for (int i = c; i < c + CHUNK; i++) {
                    if (there && lane + i * LANES < columns) row[i * LANES] = narrow<T>(x[i]);
                }
            }
        }
    }
    stretch.put(staged, p.stream);
}

#define SOFTMAX_STAGED(name, T, lanes, elements)                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, elements <= 8 ? 12 : 8)                          \
        ga_softmax_staged_##name##_##lanes##x##elements(const __grid_constant__ SoftmaxParams p) {         \
        run<T, lanes, elements>(p);                                                                        \
    }
#define SOFTMAX_STAGED_OF(name, T) GA_SOFTMAX_STAGED_TILES(SOFTMAX_STAGED, name, T)

SOFTMAX_TYPES(SOFTMAX_STAGED_OF)

}  // namespace ga_softmax_staged
