// The operations of a decoder between its matrix products: embedding, RMSNorm, rotary
// position embedding with the append to the cache, the gate of the MLP, and the choice
// of the next token. kernels/transformer.go says what each computes.
//
// arch: 75 80 86 89 90a ptx90 100 120
//
// All of them move bytes: 16 at a time and thread, neighbouring threads at neighbouring
// addresses, arithmetic in fp32, one rounding at the end. Where an operand or its rows are
// not aligned to 16 bytes, the same threads read the same elements one by one (`whole`).
// Blocks are small and many, so that a prefill fills the GPU and one row is one short
// wave. Launches overlap: each kernel waits before its first access to memory.

#include "floats.cuh"
#if __CUDA_ARCH__ >= 900
#include "cluster.cuh"
#endif

namespace ga_transformer {

constexpr int THREADS = 256;

struct EmbedParams {
    const int32_t* tokens;
    const void* table;
    float* x;
    int64_t items; // pieces of a row, times rows
    int32_t hidden, vocab;
    int32_t pieces; // of a row
    int32_t whole;
};

struct NormalizeParams {
    float* x;
    const void* delta; // or none
    const void* weight;
    void* out;
    float epsilon;
    uint32_t hidden;
    int32_t firstRow; // of x, of the first block
    int32_t fromRow;
    int32_t whole;
};

struct RotateParams {
    void* qkv;
    const int32_t* position;
    const float* table;
    void* keys;
    void* values;
    int64_t items; // of a row, times rows
    int32_t query, kv, dim;
    int32_t positions, capacity;
    int32_t perRow; // items of a row
    int32_t whole;
};

struct GateParams {
    const void* gateUp;
    void* out;
    int64_t items;
    int32_t inner;
    int32_t pieces; // of a row of out
    int32_t whole;
};

struct ChooseParams {
    const void* logits;
    int32_t* token;
    int32_t* position;
    int32_t* history;   // or none
    uint64_t* partial;  // where blocks are no cluster: one word each
    uint32_t vocab;
    int32_t historyLen;
    int32_t parts; // words of partial
    int32_t whole;
};

__device__ __forceinline__ int64_t item() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

template <class T>
__device__ __forceinline__ void embed(const EmbedParams& p) {
    dependentsMayStart();
    waitForPredecessor();
    const int64_t at = item();
    if (at >= p.items) return;
    const int64_t row = at / p.pieces;
    const int column = static_cast<int>(at - row * p.pieces) * lanesOf<T>;
    const int token = p.tokens[row];
    Floats<T> v = {};
    if (token >= 0 && token < p.vocab) {
        v = unpack<T>(loadPiece(static_cast<const T*>(p.table) + static_cast<int64_t>(token) * p.hidden + column, p.hidden - column, p.whole));
    }
    storeFloats(p.x + row * p.hidden + column, v.v, p.hidden - column, p.whole);
}

// blockSum adds a value of every thread, in an order that depends on nothing but their number.
__device__ __forceinline__ float blockSum(float v) {
    __shared__ float sums[32];
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(0xffffffff, v, i);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? sums[threadIdx.x % 32] : 0;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(0xffffffff, v, i);
    return v;
}

// normalize: a block a row. A thread keeps the first KEPT of its pieces in registers
// between both passes; what a longer row has beyond them is read again.
constexpr int KEPT = 2;

template <class T>
__device__ __forceinline__ void normalize(const NormalizeParams& p) {
    constexpr int N = lanesOf<T>;
    dependentsMayStart();
    const uint32_t first = threadIdx.x * N, step = blockDim.x * N;
    const int row = blockIdx.x + p.firstRow;
    const T* weight = static_cast<const T*>(p.weight);
    float* x = p.x + static_cast<int64_t>(row) * p.hidden;
    const T* delta = p.delta == nullptr ? nullptr : static_cast<const T*>(p.delta) + static_cast<int64_t>(row) * p.hidden;
    uint4 weights[KEPT]; // no kernel writes them
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        if (first + k * step < p.hidden) weights[k] = loadPiece(weight + first + k * step, p.hidden - first - k * step, p.whole);
    }
    waitForPredecessor();

    float sum = 0;
    // add brings one piece up to date and counts its squares.
    auto add = [&](float(&v)[N], uint32_t at) {
        loadFloats(x + at, v, p.hidden - at, p.whole);
        if (delta != nullptr) {
            const Floats<T> d = unpack<T>(loadPiece(delta + at, p.hidden - at, p.whole));
#pragma unroll
            for (int i = 0; i < N; i++) v[i] += d.v[i];
            storeFloats(x + at, v, p.hidden - at, p.whole);
        }
#pragma unroll
        for (int i = 0; i < N; i++) sum = fmaf(v[i], v[i], sum);
    };
    float kept[KEPT][N];
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        if (first + k * step < p.hidden) add(kept[k], first + k * step);
    }
    for (uint32_t at = first + KEPT * step; at < p.hidden; at += step) {
        float v[N];
        add(v, at);
    }
    if (row < p.fromRow) return;

    const float factor = 1 / sqrtf(blockSum(sum) / static_cast<float>(p.hidden) + p.epsilon);
    T* out = static_cast<T*>(p.out) + static_cast<int64_t>(row - p.fromRow) * p.hidden;
    auto scale = [&](const float(&v)[N], uint4 by, uint32_t at) {
        Floats<T> w = unpack<T>(by);
#pragma unroll
        for (int i = 0; i < N; i++) w.v[i] *= v[i] * factor;
        storePiece(out + at, pack(w), p.hidden - at, p.whole);
    };
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        if (first + k * step < p.hidden) scale(kept[k], weights[k], first + k * step);
    }
    for (uint32_t at = first + KEPT * step; at < p.hidden; at += step) {
        float v[N];
        loadFloats(x + at, v, p.hidden - at, p.whole);
        scale(v, loadPiece(weight + at, p.hidden - at, p.whole), at);
    }
}

// rotate: an item is a piece of the lower half of a query or key head with the same piece
// of the upper half, or two pieces of a head of values. A row's items: queries', keys',
// values'.
template <class T>
__device__ __forceinline__ void rotate(const RotateParams& p) {
    constexpr int N = lanesOf<T>;
    dependentsMayStart();
    const int64_t at = item();
    const int half = p.dim / 2, perHead = (half + N - 1) / N;
    const int64_t row = at / p.perRow;
    const int inRow = static_cast<int>(at - row * p.perRow), head = inRow / perHead, i = (inRow - head * perHead) * N;
    const int rest = half - i;
    waitForPredecessor();
    if (at >= p.items) return;

    const int64_t position = static_cast<int64_t>(*p.position) + row;
    T* from = static_cast<T*>(p.qkv) + (row * (p.query + 2 * p.kv) + head) * p.dim + i;
    uint4 low = loadPiece(from, rest, p.whole), high = loadPiece(from + half, rest, p.whole);
    if (head < p.query + p.kv) {
        float angle[2 * N]; // cosine and sine of each pair
        loadFloats(p.table + (min(position, static_cast<int64_t>(p.positions - 1)) * half + i) * 2, angle, 2 * rest, p.whole);
        const Floats<T> x = unpack<T>(low), y = unpack<T>(high);
        Floats<T> u, v;
#pragma unroll
        for (int e = 0; e < N; e++) {
            u.v[e] = x.v[e] * angle[2 * e] - y.v[e] * angle[2 * e + 1];
            v.v[e] = y.v[e] * angle[2 * e] + x.v[e] * angle[2 * e + 1];
        }
        low = pack(u), high = pack(v);
        storePiece(from, low, rest, p.whole);
        storePiece(from + half, high, rest, p.whole);
    }
    if (head < p.query) return;
    const bool key = head < p.query + p.kv;
    const int kv = head - p.query - (key ? 0 : p.kv);
    T* to = static_cast<T*>(key ? p.keys : p.values) + (static_cast<int64_t>(kv) * p.capacity + position % p.capacity) * p.dim + i;
    storePiece(to, low, rest, p.whole);
    storePiece(to + half, high, rest, p.whole);
}

template <class T>
__device__ __forceinline__ void gate(const GateParams& p) {
    constexpr int N = lanesOf<T>;
    dependentsMayStart();
    const int64_t at = item(), row = at / p.pieces;
    const int column = static_cast<int>(at - row * p.pieces) * N;
    waitForPredecessor();
    if (at >= p.items) return;
    const T* from = static_cast<const T*>(p.gateUp) + row * 2 * p.inner + column;
    const Floats<T> g = unpack<T>(loadPiece(from, p.inner - column, p.whole));
    Floats<T> u = unpack<T>(loadPiece(from + p.inner, p.inner - column, p.whole));
#pragma unroll
    for (int i = 0; i < N; i++) u.v[i] *= g.v[i] / (1 + __expf(-g.v[i]));
    storePiece(static_cast<T*>(p.out) + row * p.inner + column, pack(u), p.inner - column, p.whole);
}

// ranked orders logits by value and equal ones by their index, the first on top; NaN
// comes last. -0 equals 0.
__device__ __forceinline__ uint64_t ranked(float v, uint32_t index) {
    const uint32_t bits = __float_as_uint(v + 0.f);
    const uint32_t order = v != v ? 0 : bits ^ (bits >> 31 != 0 ? 0xffffffffu : 0x80000000u);
    return static_cast<uint64_t>(order) << 32 | (0xffffffffu - index);
}

__device__ __forceinline__ uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

// blockLargest is the largest of a value of every thread, in thread 0.
__device__ __forceinline__ uint64_t blockLargest(uint64_t v) {
    __shared__ uint64_t best[32];
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v = larger(v, __shfl_xor_sync(0xffffffff, v, i));
    if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x >= 32) return v;
    v = threadIdx.x < blockDim.x / 32 ? best[threadIdx.x] : 0;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v = larger(v, __shfl_xor_sync(0xffffffff, v, i));
    return v;
}

// chooseAmong is the largest of the logits that this block looks at: all blocks together,
// a piece a thread in turn.
template <class T>
__device__ __forceinline__ uint64_t chooseAmong(const ChooseParams& p) {
    constexpr int N = lanesOf<T>;
    const T* logits = static_cast<const T*>(p.logits);
    uint64_t best = 0;
    const uint32_t step = gridDim.x * blockDim.x * N;
#pragma unroll 4
    for (uint32_t at = static_cast<uint32_t>(item()) * N; at < p.vocab; at += step) {
        const int count = static_cast<int>(p.vocab - at);
        const bool whole = p.whole && count >= N;
        const Floats<T> v = unpack<T>(loadPiece(logits + at, count, whole));
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i < count) best = larger(best, ranked(v.v[i], at + i));
        }
    }
    return blockLargest(best);
}

// take makes a ranked logit the next token. One thread.
__device__ __forceinline__ void take(const ChooseParams& p, uint64_t best) {
    const int token = static_cast<int>(0xffffffffu - static_cast<uint32_t>(best)), n = *p.position;
    *p.token = token;
    *p.position = n + 1;
    if (p.history != nullptr) p.history[static_cast<uint32_t>(n) % static_cast<uint32_t>(p.historyLen)] = token;
}

// choose: where there are clusters, the blocks are one and the first takes what the others
// put into its memory; else ga_choose_last does in a launch of its own. A single block
// is no cluster, and stores into one are not defined there.
template <class T>
__device__ __forceinline__ void choose(const ChooseParams& p) {
    dependentsMayStart();
#if __CUDA_ARCH__ >= 900
    __shared__ uint64_t bests[8], bar;
    const uint32_t first = sharedAddress(&bar);
    const bool singleBlock = gridDim.x == 1;
    if (!singleBlock) clusterArrive(first, blockIdx.x == 0 ? gridDim.x * 8 : 0);
    waitForPredecessor();
    const uint64_t best = chooseAmong<T>(p);
    if (singleBlock) {
        if (threadIdx.x == 0) take(p, best);
        return;
    }
    clusterWait();
    if (threadIdx.x == 0) send(atRank(sharedAddress(bests + blockIdx.x), 0), atRank(first, 0), best);
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    received(first);
    uint64_t all = 0;
    for (int i = 0; i < gridDim.x; i++) all = larger(all, bests[i]);
    take(p, all);
#else
    const uint64_t best = chooseAmong<T>(p);
    if (threadIdx.x == 0) p.partial[blockIdx.x] = best;
#endif
}

#define GA_TRANSFORMER(DTYPE, T)                                                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS) ga_embed_##DTYPE(const __grid_constant__ EmbedParams p) {     \
        embed<T>(p);                                                                                                    \
    }                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(1024) ga_normalize_##DTYPE(const __grid_constant__ NormalizeParams p) { \
        normalize<T>(p);                                                                                                \
    }                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS) ga_rotate_##DTYPE(const __grid_constant__ RotateParams p) {   \
        rotate<T>(p);                                                                                                   \
    }                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(THREADS) ga_gated_##DTYPE(const __grid_constant__ GateParams p) {       \
        gate<T>(p);                                                                                                     \
    }                                                                                                                   \
    extern "C" __global__ void __launch_bounds__(1024) ga_choose_##DTYPE(const __grid_constant__ ChooseParams p) {      \
        choose<T>(p);                                                                                                   \
    }

GA_TRANSFORMER(fp32, float)
GA_TRANSFORMER(fp16, __half)
#ifdef GA_HAS_BF16
GA_TRANSFORMER(bf16, __nv_bfloat16)
#endif

#if __CUDA_ARCH__ < 900
// ga_choose_last: one block, over what the blocks of ga_choose left.
extern "C" __global__ void __launch_bounds__(1024) ga_choose_last(const __grid_constant__ ChooseParams p) {
    uint64_t best = 0;
    for (int i = threadIdx.x; i < p.parts; i += blockDim.x) best = larger(best, p.partial[i]);
    best = blockLargest(best);
    if (threadIdx.x == 0) take(p, best);
}
#endif

} // namespace ga_transformer
