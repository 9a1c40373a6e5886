// What the kernels of attention_decode.cu share: which tiles a block has, how it takes the
// row of queries, and how the parts of warps and blocks become the output.
#pragma once

#include "attention.cuh"
#include "vector.cuh"

namespace ga_attention_decode {

constexpr int WARPS = 8;
constexpr int THREADS = 32 * WARPS;
constexpr int TILE = 16;        // keys
constexpr int MOST_HEADS = 8;   // of a block
constexpr int MOST_DIM = 256;

struct Params {
    const void* q; // queries, or with a table the raw row: query heads, keys', values'
    void* keys;
    void* values;
    void* out;
    const int32_t* position;
    const float* table; // or none
    uint4* exchange;    // zeros between launches
    int32_t query, kv, group, chunks; // chunks: blocks that share the heads of a group
    int32_t dim, capacity, window, length;
    int32_t positions; // of the table
    int32_t ahead;     // tiles of a warp that are fetched into L2 before the launch begins
    int32_t whole;     // keys and values consist of aligned pieces of 16 bytes
    float scale;       // of scores, times log2(e)
};

// weightOf is 2^(m - top), where nothing was seen 0.
__device__ __forceinline__ float weightOf(float m, float top) { return m == lowest() ? 0.f : exp2Approximate(m - top); }

// threadNumber is the special register, read anew each time: what follows from it can be
// worked out again after a loop that has no registers to keep it in, where the compiler, if
// it knew, would keep it. So are a block's heads.
__device__ __forceinline__ int threadNumber() {
    int n;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(n));
    return n;
}

// HeadShare is which heads a block serves.
struct HeadShare {
    int kv;          // of keys and values
    int head, heads; // first query head, and how many

    __device__ __forceinline__ HeadShare(const Params& p, int most) {
        int block;
        asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(block));
        kv = block / p.chunks;
        const int inGroup = (block - kv * p.chunks) * most;
        head = kv * p.group + inGroup;
        heads = min(most, p.group - inGroup);
    }
};

// Share is what a block has to do.
struct Share : HeadShare {
    int begin, end;  // positions that the row sees
    int first, last; // tiles, of those that begin at multiples of TILE

    __device__ __forceinline__ Share(const Params& p, int most, int position) : HeadShare(p, most) {
        const Seen seen = seenFrom(position, p.window);
        begin = seen.begin, end = seen.end;
        const int tiles = (end - 1) / TILE + 1 - begin / TILE, splits = gridDim.x, split = blockIdx.x;
        const int least = static_cast<uint32_t>(tiles) / gridDim.x;
        const int beyond = split - (splits - (tiles - least * splits)); // from 0 on, blocks have one more
        first = begin / TILE + least * split + max(0, beyond);
        last = first + least + (beyond >= 0);
    }
};

// positionNow is the position as it stands in memory, which an overlapped predecessor may
// still write.
__device__ __forceinline__ int positionNow(const Params& p) {
    int position;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(position) : "l"(p.position) : "memory");
    return max(0, min(position, p.length - 1));
}

// fetchAhead has L2 fetch the first tiles of this warp's share, as far as they are known: the
// predecessor may still write the position. Wherever that points, the ring has it.
template <class T>
__device__ __forceinline__ void fetchAhead(const Params& p, int most) {
#if __CUDA_ARCH__ >= 900
    if (p.ahead == 0) return;
    const Share s(p, most, positionNow(p));
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int tile = s.first + warp + lane / 2 * WARPS;
    if (lane / 2 < p.ahead && tile < s.last && p.whole) {
        const int64_t slot = static_cast<int64_t>(s.kv) * p.capacity + tile * TILE % p.capacity;
        const T* from = static_cast<const T*>(lane % 2 == 0 ? p.keys : p.values) + slot * p.dim;
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(TILE * p.dim * static_cast<int>(sizeof(T))) : "memory");
    }
#endif
}

// Few are N elements that are loaded together.
template <class T, int N>
struct alignas(sizeof(T) * N) Few {
    T v[N];
};

// Taken is what a thread brings of the raw row to shared memory: N elements of the lower half
// of a head and those of the upper half that are rotated with them. Items are numbered
// through the block's heads and, where it has the newest position, its key and its value.
template <class T, int N>
struct Taken {
    Few<T, N> low, high;
    float2 angles[N];

    // itemsOf is how many there are.
    __device__ __forceinline__ static int itemsOf(const HeadShare& s, int dim, bool newest) { return (s.heads + (newest ? 2 : 0)) * (dim / 2 / N); }

    __device__ __forceinline__ void load(const Params& p, const Share& s, int dim, int item) {
        const int half = dim / 2, h = item / (half / N), e = item % (half / N) * N;
        const int head = h < s.heads ? s.head + h : p.query + s.kv + (h - s.heads) * p.kv; // of the raw row
        const T* const from = static_cast<const T*>(p.q) + head * dim + e;
        low = *reinterpret_cast<const Few<T, N>*>(from);
        high = *reinterpret_cast<const Few<T, N>*>(from + half);
        if (p.table == nullptr || h > s.heads) return;
        const float2* const row = reinterpret_cast<const float2*>(p.table) + static_cast<int64_t>(min(s.end - 1, p.positions - 1)) * half + e;
#pragma unroll
        for (int i = 0; i < N; i++) angles[i] = row[i];
    }

    // keep rotates, where there is a table, and stores: queries at `to`, `pitch` elements of
    // type S apart, the newest key and value at `newest`, [2][MOST_DIM], and in the cache.
    template <class S>
    __device__ __forceinline__ void keep(const Params& p, const Share& s, int dim, int item, S* to, int pitch, T* newest) {
        const int half = dim / 2, h = item / (half / N), e = item % (half / N) * N;
        if (p.table != nullptr && h <= s.heads) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                const float u = widen(low.v[i]), v = widen(high.v[i]);
                low.v[i] = narrow<T>(u * angles[i].x - v * angles[i].y), high.v[i] = narrow<T>(v * angles[i].x + u * angles[i].y);
            }
        }
        if (h < s.heads) {
            S* const query = to + h * pitch + e;
            if constexpr (sizeof(S) == sizeof(T)) {
                both(query, half);
            } else {
#pragma unroll
                for (int i = 0; i < N; i++) query[i] = widen(low.v[i]), query[i + half] = widen(high.v[i]);
            }
            return;
        }
        both(newest + (h - s.heads) * MOST_DIM + e, half);
        if (blockIdx.y % p.chunks != 0) return;
        const int64_t slot = static_cast<int64_t>(s.kv) * p.capacity + (s.end - 1) % p.capacity;
        both(static_cast<T*>(h == s.heads ? p.keys : p.values) + slot * dim + e, half);
    }

    __device__ __forceinline__ void both(T* to, int half) const {
        *reinterpret_cast<Few<T, N>*>(to) = low;
        *reinterpret_cast<Few<T, N>*>(to + half) = high;
    }
};

// WarpParts are the maximum and the sum of weights of each warp and head.
struct WarpParts {
    float top[WARPS][MOST_HEADS], sum[WARPS][MOST_HEADS];
};

// Factors are what scales the warps' parts of a head, whose maximum is top.
struct Factors {
    float top, of[WARPS];

    __device__ __forceinline__ Factors(const WarpParts& warps, int h) {
#pragma unroll
        for (int w = 0; w < WARPS; w++) of[w] = warps.top[w][h];
        top = of[0];
#pragma unroll
        for (int w = 1; w < WARPS; w++) top = fmaxf(top, of[w]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) of[w] = weightOf(of[w], top);
    }
};

// Seconds of polling: a block that is waited for as long is not on the GPU.
constexpr uint32_t MOST_POLLS = 1u << 23;

// put stores four floats for another block, and get waits for them and leaves zeros. A wait
// without an end becomes a launch that failed.
__device__ __forceinline__ uint32_t sealed(float v) { return ~__float_as_uint(v); }
__device__ __forceinline__ void put(uint4* to, const float (&v)[4]) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(sealed(v[0])), "r"(sealed(v[1])), "r"(sealed(v[2])), "r"(sealed(v[3])) : "memory");
}
__device__ __forceinline__ float4 get(uint4* from) {
    uint4 v;
    uint32_t polls = 0;
    do {
        if (polls++ == MOST_POLLS) __trap();
        asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
    } while (v.x == 0 || v.y == 0 || v.z == 0 || v.w == 0);
    *from = make_uint4(0, 0, 0, 0);
    return make_float4(__uint_as_float(~v.x), __uint_as_float(~v.y), __uint_as_float(~v.z), __uint_as_float(~v.w));
}

// Record is what one block tells another: maximum and sum of each head, an even number of
// them, and its sums of a slice of the output, a multiple of four.
struct Record {
    int heads, slice, words;

    __device__ __forceinline__ Record(int heads, int all) : heads((heads + 1) / 2 * 2) {
        slice = (all + 4 * static_cast<int>(gridDim.x) - 1) / (4 * static_cast<int>(gridDim.x)) * 4;
        words = 2 * this->heads + slice;
    }
};

// merge adds the parts of warps, sums[warp][head][element], and of blocks, and writes the
// output. Behind the sums there is room for a record of each split.
template <class T>
__device__ __forceinline__ void merge(const Params& p, const HeadShare& s, int most, int dim, float* sums, const WarpParts& warps) {
    constexpr int LANES = 8; // add up one element
    const int all = s.heads * dim, splits = gridDim.x, split = blockIdx.x;
    const Record record(s.heads, all);
    const Record largest(min(most, p.group), min(most, p.group) * dim);
    // [reader][writer][words]
    uint4* const exchange = p.exchange + static_cast<int64_t>(blockIdx.y) * splits * splits * (largest.words / 4);
    const int vectors = record.words / 4;
    __syncthreads();
    // Maxima and sums come first, of two heads a vector, so that few warps have both kinds.
#pragma unroll 1
    for (int i = threadIdx.x; i < splits * vectors; i += THREADS) {
        float v[4] = {};
        int reader, vector;
        if (i < splits * (record.heads / 2)) {
            reader = i / (record.heads / 2), vector = i - reader * (record.heads / 2);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const Factors factors(warps, 2 * vector + e);
                v[2 * e] = factors.top;
#pragma unroll
                for (int w = 0; w < WARPS; w++) v[2 * e + 1] = fmaf(factors.of[w], warps.sum[w][2 * vector + e], v[2 * e + 1]);
            }
        } else {
            const int at = 4 * (i - splits * (record.heads / 2));
            reader = at / record.slice, vector = (2 * record.heads + at - reader * record.slice) / 4;
            if (dim % 4 == 0) {
                if (at < all) {
                    const Factors factors(warps, at / dim);
#pragma unroll
                    for (int w = 0; w < WARPS; w++) {
                        const float4 part = *reinterpret_cast<const float4*>(sums + w * all + at);
                        v[0] = fmaf(factors.of[w], part.x, v[0]), v[1] = fmaf(factors.of[w], part.y, v[1]);
                        v[2] = fmaf(factors.of[w], part.z, v[2]), v[3] = fmaf(factors.of[w], part.w, v[3]);
                    }
                }
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    if (at + e >= all) continue;
                    const Factors factors(warps, (at + e) / dim);
#pragma unroll
                    for (int w = 0; w < WARPS; w++) v[e] = fmaf(factors.of[w], sums[w * all + at + e], v[e]);
                }
            }
        }
        put(exchange + (reader * splits + split) * vectors + vector, v);
    }
    float* const records = sums + WARPS * all;
    uint4* const mine = exchange + split * splits * vectors;
#pragma unroll 1
    for (int i = threadIdx.x; i < splits * vectors; i += THREADS) reinterpret_cast<float4*>(records)[i] = get(mine + i);
    __syncthreads();
    const int lane = threadIdx.x % LANES;
#pragma unroll 1
    for (int i = threadIdx.x / LANES; i < (record.slice + THREADS / LANES - 1) / (THREADS / LANES) * (THREADS / LANES); i += THREADS / LANES) {
        const int at = split * record.slice + i, h = min(at / dim, s.heads - 1), element = min(i, record.slice - 1);
        float top = lowest(), v = 0, sum = 0;
        for (int r = lane; r < splits; r += LANES) top = fmaxf(top, records[r * record.words + 2 * h]);
#pragma unroll
        for (int e = 1; e < LANES; e *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, e));
        for (int r = lane; r < splits; r += LANES) {
            const float* const part = records + r * record.words;
            const float f = weightOf(part[2 * h], top);
            sum = fmaf(f, part[2 * h + 1], sum);
            v = fmaf(f, part[2 * record.heads + element], v);
        }
#pragma unroll
        for (int e = 1; e < LANES; e *= 2) {
            sum += __shfl_xor_sync(0xffffffff, sum, e);
            v += __shfl_xor_sync(0xffffffff, v, e);
        }
        if (lane == 0 && i < record.slice && at < all) static_cast<T*>(p.out)[s.head * dim + at] = narrow<T>(v / sum);
    }
}

} // namespace ga_attention_decode
