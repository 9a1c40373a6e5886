// What a decoder with experts does around their products: the choice for one row, and for the rows of a
// prompt the copies that bring rows of the same expert together, and the sums of what comes out.
//
// arch: 75 80 86 89 90a ptx90
//
// choose: one block, because a launch costs more than the router's few rows. A thread has 16 bytes of
// each row of the router, for up to eight experts at a time, and of the normalization's weight: the first
// of them in registers before it waits. The norm is a factor of all sums, so that one pass over x gives its
// squares and the products. Then a warp has an expert a lane and takes the largest logits one by one.
//
// Overlapped launches: choose lets its dependents start only behind its wait: see fused_product.cuh.
//
// gather and scatter move 16 bytes at a time and thread. scatter adds up in fp32 and rounds once.

#include "chosen.cuh"
#include "floats.cuh"

namespace ga_experts {

constexpr int THREADS = 256;
constexpr int CHOOSE_THREADS = 512; // with 128 registers
constexpr int MOST = 32; // experts, a lane each
constexpr int TOGETHER = 8;

struct ChooseParams {
    const float* x;
    const void* weight; // of the norm
    const void* router; // [experts][ldb], rows aligned to 16 bytes, zeros behind hidden
    const uint64_t* table; // [experts][units, outputs]
    Chosen* chosen;
    int64_t ldb; // in elements
    float epsilon;
    int32_t hidden, experts, count; // hidden is a number of whole pieces of 16 bytes, all aligned
};

struct GatherParams {
    const void* from;
    void* to;
    const int32_t* rows; // of from, for each of to
    int64_t items;
    int32_t columns, pieces, whole;
};

struct ScatterParams {
    const void* from;
    void* to;
    const int32_t* rows;  // [rows of to][count]: of from
    const float* shares; // [rows of to][count]
    int64_t items;
    int32_t columns, count, pieces, whole;
};

template <class T>
__device__ __forceinline__ void choose(const ChooseParams& p) {
    constexpr int N = lanesOf<T>;
    __shared__ uint64_t table[2 * MOST];
    __shared__ float sums[CHOOSE_THREADS / 32][TOGETHER + 1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int first = threadIdx.x * N, step = blockDim.x * N;
    const T* weight = static_cast<const T*>(p.weight);
    uint4 scales = {}, rows[TOGETHER] = {};
    // fetch reads from memory that no kernel writes.
    auto fetch = [&](int from, int at) {
        scales = *reinterpret_cast<const uint4*>(weight + at);
#pragma unroll
        for (int e = 0; e < TOGETHER; e++) {
            if (from + e < p.experts) rows[e] = *reinterpret_cast<const uint4*>(static_cast<const T*>(p.router) + (from + e) * p.ldb + at);
        }
    };
    if (first < p.hidden) fetch(0, first);
    if (threadIdx.x < 2 * p.experts) table[threadIdx.x] = p.table[threadIdx.x];
    waitForPredecessor();
    dependentsMayStart();

    float logit = 0; // of expert `lane`, in warp 0
#pragma unroll 1
    for (int from = 0; from < p.experts; from += TOGETHER) {
        float sum[TOGETHER + 1] = {}; // the last is of squares
#pragma unroll 1
        for (int at = first; at < p.hidden; at += step) {
            if (from > 0 || at > first) fetch(from, at);
            float x[N];
            loadFloats(p.x + at, x, N, true);
            const Floats<T> w = unpack<T>(scales);
#pragma unroll
            for (int i = 0; i < N; i++) {
                sum[TOGETHER] = fmaf(x[i], x[i], sum[TOGETHER]);
                x[i] *= w.v[i];
            }
#pragma unroll
            for (int e = 0; e < TOGETHER; e++) {
                const Floats<T> r = unpack<T>(rows[e]);
#pragma unroll
                for (int i = 0; i < N; i++) sum[e] = fmaf(x[i], r.v[i], sum[e]);
            }
        }
        if (from > 0) __syncthreads(); // the sums before were read
#pragma unroll
        for (int e = 0; e <= TOGETHER; e++) {
            sum[e] = warpSum(sum[e]);
            if (lane == 0) sums[warp][e] = sum[e];
        }
        __syncthreads();
        if (warp == 0) {
            float scale = 0;
#pragma unroll
            for (int e = TOGETHER; e >= 0; e--) {
                const float all = warpSum(lane < warps ? sums[lane][e] : 0);
                if (e == TOGETHER) scale = rsqrtf(__fdividef(all, static_cast<float>(p.hidden)) + p.epsilon);
                if (lane == from + e) logit = all * scale;
            }
        }
    }
    if (warp > 0) return;
    const Choice c(logit, p.experts, p.count);
    if (lane < p.count) p.chosen[lane] = Chosen{table[2 * c.expert], table[2 * c.expert + 1], c.share, c.expert};
}

template <class T>
__device__ __forceinline__ void gather(const GatherParams& p) {
    dependentsMayStart();
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, row = at / p.pieces;
    const int column = static_cast<int>(at - row * p.pieces) * lanesOf<T>, rest = p.columns - column;
    waitForPredecessor();
    if (at >= p.items) return;
    const T* from = static_cast<const T*>(p.from) + static_cast<int64_t>(p.rows[row]) * p.columns + column;
    storePiece(static_cast<T*>(p.to) + row * p.columns + column, loadPiece(from, rest, p.whole), rest, p.whole);
}

template <class T>
__device__ __forceinline__ void scatter(const ScatterParams& p) {
    constexpr int N = lanesOf<T>;
    dependentsMayStart();
    const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, row = at / p.pieces;
    const int column = static_cast<int>(at - row * p.pieces) * N, rest = p.columns - column;
    waitForPredecessor();
    if (at >= p.items) return;
    Floats<T> sum = {};
    for (int i = 0; i < p.count; i++) {
        const int64_t of = row * p.count + i;
        const float share = p.shares[of];
        const T* from = static_cast<const T*>(p.from) + static_cast<int64_t>(p.rows[of]) * p.columns + column;
        const Floats<T> v = unpack<T>(loadPiece(from, rest, p.whole));
#pragma unroll
        for (int j = 0; j < N; j++) sum.v[j] = fmaf(share, v.v[j], sum.v[j]);
    }
    storePiece(static_cast<T*>(p.to) + row * p.columns + column, pack(sum), rest, p.whole);
}

} // namespace ga_experts

#define GA_EXPERTS(DTYPE, T)                                                                   \
    extern "C" __global__ void __launch_bounds__(ga_experts::CHOOSE_THREADS)                   \
        ga_expert_choice_##DTYPE(const __grid_constant__ ga_experts::ChooseParams p) {         \
        ga_experts::choose<T>(p);                                                              \
    }                                                                                          \
    extern "C" __global__ void __launch_bounds__(ga_experts::THREADS)                          \
        ga_expert_rows_##DTYPE(const __grid_constant__ ga_experts::GatherParams p) {           \
        ga_experts::gather<T>(p);                                                              \
    }                                                                                          \
    extern "C" __global__ void __launch_bounds__(ga_experts::THREADS)                          \
        ga_expert_sums_##DTYPE(const __grid_constant__ ga_experts::ScatterParams p) {          \
        ga_experts::scatter<T>(p);                                                             \
    }

GA_EXPERTS(fp32, float)
GA_EXPERTS(fp16, __half)
#ifdef GA_HAS_BF16
GA_EXPERTS(bf16, __nv_bfloat16)
#endif
