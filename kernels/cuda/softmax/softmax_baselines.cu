// arch: 75 80 86 89 90a ptx90
//
// What others are held against: the two kernels of FasterTransformer 1.0, and three passes.
// Compute capability 7.5 and up.
//
// fastertransformer  As many threads as the next power of two above the columns, 32 to 1024,
//           each of which has one element of a row. Largest and sum are found by shuffles, then over
//           shared memory, with a barrier for each and two more to hand them back. Where there
//           are more than 120 sequences of as many rows as columns, a block walks over the rows
//           of one (many); else it has one row (few).
// naive     A block of 256 threads for a row, which it reads element by element three times:
//           for the largest, for the sum and for the output.

#include "softmax.cuh"

namespace ga_softmax_baselines {

constexpr int THREADS = 256;

// overBlock combines a value of all threads; all get the result.
template <class Combine>
__device__ __forceinline__ float overBlock(float v, float none, float* shared, Combine combine) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) v = combine(v, __shfl_xor_sync(0xffffffff, v, lanes));
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    v = lane < warps ? shared[lane] : none;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) v = combine(v, __shfl_xor_sync(0xffffffff, v, lanes));
    return v;
}

__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ float added(float a, float b) { return a + b; }

// Met is what warps of a block tell each other.
struct Met {
    float tops[32], sums[32], top, sum;
};

// oneElementEach does `count` rows from first on. What a row costs beyond what the original spends on one shows in
// its time: where PLAIN, there is no mask and no logarithm, and nothing is computed for them.
template <class T, bool PLAIN>
__device__ __forceinline__ void oneElementEach(const SoftmaxParams& p, Met& met, int first, int count) {
    const int column = threadIdx.x;
    const int64_t at = static_cast<int64_t>(first) * p.columns + column;
    const T* in = static_cast<const T*>(p.in) + at;
    T* out = static_cast<T*>(p.out) + at;
    for (int i = 0; i < count; i++, in += p.columns, out += p.columns) {
        const int seen = PLAIN ? p.columns : seenOf(p, first + i);
        float x = column < seen ? widen(*in) : 0;
        x = column < seen ? x * p.scale : lowest();
        float v = overBlock(x, lowest(), met.tops, larger);
        if (threadIdx.x == 0) met.top = v;
        __syncthreads();
        const float difference = x - met.top;
        const float weight = column < seen ? __expf(difference) : 0;
        v = overBlock(weight, 0, met.sums, added);
        if (threadIdx.x == 0) met.sum = v;
        __syncthreads();
        if (column >= p.columns) continue;
        float result = weight / met.sum;
        if (!PLAIN) result = column >= seen ? (p.log ? lowest() : 0) : p.log ? difference - logf(met.sum) : result;
        *out = narrow<T>(result);
    }
}

template <class T>
__device__ __forceinline__ void oneElementEach(const SoftmaxParams& p, int first, int rows) {
    __shared__ Met met;
    dependentsMayStart();
    waitForPredecessor();
    const int count = min(rows, p.rows - first);
    if (p.queries == 0 && !p.log)
        oneElementEach<T, true>(p, met, first, count);
    else
        oneElementEach<T, false>(p, met, first, count);
}

template <class T>
__device__ __forceinline__ void threePasses(const SoftmaxParams& p) {
    __shared__ float tops[32], sums[32];
    dependentsMayStart();
    waitForPredecessor();
    const T* const in = static_cast<const T*>(p.in) + blockIdx.x * static_cast<int64_t>(p.columns);
    T* const out = static_cast<T*>(p.out) + blockIdx.x * static_cast<int64_t>(p.columns);
    const int seen = seenOf(p, blockIdx.x);
    float top = lowest(), sum = 0;
    for (int column = threadIdx.x; column < seen; column += THREADS) top = fmaxf(top, widen(in[column]));
    top = overBlock(top, lowest(), tops, larger);
    for (int column = threadIdx.x; column < seen; column += THREADS) sum += expf((widen(in[column]) - top) * p.scale);
    sum = overBlock(sum, 0, sums, added);
    for (int column = threadIdx.x; column < p.columns; column += THREADS) {
        float result = p.log ? lowest() : 0;
        if (column < seen) {
            const float difference = (widen(in[column]) - top) * p.scale;
            result = p.log ? difference - logf(sum) : expf(difference) / sum;
        }
        out[column] = narrow<T>(result);
    }
}

#define SOFTMAX_BASELINES(name, T)                                                          \
    extern "C" __global__ void __launch_bounds__(1024)                                      \
        ga_softmax_fastertransformer_##name##_many(const __grid_constant__ SoftmaxParams p) { \
        oneElementEach<T>(p, blockIdx.x * p.columns, p.columns);      \
    }                                                                                       \
    extern "C" __global__ void __launch_bounds__(1024)                                      \
        ga_softmax_fastertransformer_##name##_few(const __grid_constant__ SoftmaxParams p) { \
        oneElementEach<T>(p, blockIdx.x, 1);                                                \
    }                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS)                                   \
        ga_softmax_naive_##name(const __grid_constant__ SoftmaxParams p) {                  \
        threePasses<T>(p);                                                                  \
    }

SOFTMAX_TYPES(SOFTMAX_BASELINES)

}  // namespace ga_softmax_baselines
