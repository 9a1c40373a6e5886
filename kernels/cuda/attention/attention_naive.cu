// The plainest attention, which the others are held against: a block takes one head of
// one row, writes its scores to a workspace, and reads them again twice.
//
// arch: 75 80 86 89 90a ptx90 100 120
//
// Threads   128 a block, eight blocks a multiprocessor, each of which walks over the pairs
//           of a row and a head. For the scores a thread takes a key, for the output one
//           element of it.
// Scratch   `width` scores for each block, not for each row: so it does not grow with the
//           number of rows.
// Reads     Every key and value once for every row and head that sees it, from L2 at best,
//           elements one by one, and a warp's keys from 32 rows: 2 operations for each of them.

#include "attention.cuh"
#include "numeric.cuh"

namespace ga_attention_naive {

constexpr int THREADS = 128, WARPS = THREADS / 32;

struct NaiveAttentionParams {
    const void* q;
    const void* keys;
    const void* values;
    void* out;
    const int* position;
    float* scores;   // [grid, width]
    int64_t ldq;     // in elements
    int rows, heads; // of queries
    int group;       // query heads to one of keys
    int dim, capacity;
    int window, length, width;
    float scale;
};

// overBlock combines a value of all threads; everyone gets the result.
template <class Combine>
__device__ __forceinline__ float overBlock(float v, float* shared, Combine combine) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) v = combine(v, __shfl_xor_sync(0xffffffff, v, lanes));
    __syncthreads();  // the last result has been read
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = shared[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) v = combine(v, shared[w]);
    return v;
}

template <class T>
__device__ __forceinline__ void attend(const NaiveAttentionParams& p) {
    __shared__ float shared[WARPS];
    const int first = firstPosition(p.position, p.rows, p.length);
    const int64_t plane = static_cast<int64_t>(p.capacity) * p.dim;
    float* scores = p.scores + static_cast<int64_t>(blockIdx.x) * p.width;

    for (int64_t item = blockIdx.x; item < static_cast<int64_t>(p.rows) * p.heads; item += gridDim.x) {
        const int row = static_cast<int>(item / p.heads), head = static_cast<int>(item % p.heads);
        const Seen seen = seenFrom(first + row, p.window);
        const int count = seen.end - seen.begin;
        const T* q = static_cast<const T*>(p.q) + row * p.ldq + head * p.dim;
        const T* keys = static_cast<const T*>(p.keys) + head / p.group * plane;
        const T* values = static_cast<const T*>(p.values) + head / p.group * plane;

        float most = -__int_as_float(0x7f800000);
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const T* key = keys + static_cast<int64_t>((seen.begin + i) % p.capacity) * p.dim;
            float sum = 0;
            for (int e = 0; e < p.dim; e++) sum += widen(q[e]) * widen(key[e]);
            sum *= p.scale;
            scores[i] = sum;
            most = fmaxf(most, sum);
        }
        most = overBlock(most, shared, [](float x, float y) { return fmaxf(x, y); });

        float total = 0;
        for (int i = threadIdx.x; i < count; i += THREADS) {  // those that it wrote itself
            const float weight = expf(scores[i] - most);
            scores[i] = weight;
            total += weight;
        }
        total = overBlock(total, shared, [](float x, float y) { return x + y; });

        for (int e = threadIdx.x; e < p.dim; e += THREADS) {
            float sum = 0;
            for (int i = 0; i < count; i++) {
                sum += scores[i] * widen(values[static_cast<int64_t>((seen.begin + i) % p.capacity) * p.dim + e]);
            }
            static_cast<T*>(p.out)[item * p.dim + e] = narrow<T>(sum / total);
        }
        __syncthreads();  // the scores have been read
    }
}

#define NAIVE_ATTENTION(name, T)                                           \
    extern "C" __global__ void __launch_bounds__(THREADS)                  \
        ga_attention_naive_##name(const __grid_constant__ NaiveAttentionParams p) { \
        attend<T>(p);                                                      \
    }

NAIVE_ATTENTION(fp32, float)
NAIVE_ATTENTION(fp16, __half)
#ifdef GA_HAS_BF16
NAIVE_ATTENTION(bf16, __nv_bfloat16)
#endif

}  // namespace ga_attention_naive
