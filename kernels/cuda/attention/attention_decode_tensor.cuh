// The kernels of attention_decode.cu on tensor cores.
#pragma once

#include "attention_decode.cuh"
#include "mma_sync.cuh"
#include "ptx.cuh"

namespace ga_attention_decode {

#if __CUDA_ARCH__ >= 800
template <class T>
constexpr bool isBfloat = false;
template <>
constexpr bool isBfloat<__nv_bfloat16> = true;

template <class T>
__device__ __forceinline__ uint32_t pairOf(float low, float high) {
    return static_cast<uint32_t>(toBits(narrow<T>(low))) | static_cast<uint32_t>(toBits(narrow<T>(high))) << 16;
}

// multiply adds a 16×8 product, 16 deep.
template <class T>
__device__ __forceinline__ void multiply(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    if constexpr (isBfloat<T>) {
        mmaBF16(d, a0, a1, a2, a3, b0, b1);
    } else {
        mmaFP16(d, a0, a1, a2, a3, b0, b1);
    }
}

// fetchBytes copies bytes of global memory to shared memory; they count at barrier `bar`.
__device__ __forceinline__ void fetchBytes(uint32_t to, const void* from, int bytes, uint32_t bar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(bar), "l"(EVICT_FIRST)
        : "memory");
}

// Behind is a warp's place in shared memory for the tile behind the one in its registers:
// keys and values are two bulk copies, which one lane asks for and all lanes read.
template <class T, int D>
struct Behind {
    static constexpr int HALF = TILE * D * static_cast<int>(sizeof(T)); // bytes of a tile's keys, and of its values
    unsigned char* place;
    uint32_t full; // barrier
    const T *keys, *values;
    int parity; // of the copies that are waited for next

    __device__ __forceinline__ void ask(int slot) const {
        if (threadIdx.x % 32 == 0) {
            barrierExpect(full, 2 * HALF);
            fetchBytes(sharedAddress(place), keys + static_cast<int64_t>(slot) * D, HALF, full);
            fetchBytes(sharedAddress(place) + HALF, values + static_cast<int64_t>(slot) * D, HALF, full);
        }
    }
    // wait returns where the keys are, once they and the values have come.
    __device__ __forceinline__ const T* wait() {
        barrierWait(full, parity);
        parity ^= 1;
        return reinterpret_cast<const T*>(place);
    }
};

// tensor is the kernel on tensor cores: D elements a head, tiles by bulk copies or straight
// to registers.
template <class T, int D, bool BULK>
__device__ __forceinline__ void tensor(const Params& p) {
    constexpr int STEPS = D / 32;     // pieces of 64 bytes of a key
    constexpr int HALVES = D / 64;    // pieces of 128 bytes of a value
    constexpr int PITCH = D + 32;     // of a head in shared memory: lanes that load together are in other banks
    constexpr int TAKEN = 4;          // elements of a half of a head
    constexpr bool OVERLAPPED = __CUDA_ARCH__ >= 900;
    static_assert((MOST_HEADS + 2) * (D / 2 / TAKEN) <= THREADS, "a thread takes more than one item of the row");
    extern __shared__ __align__(128) unsigned char memory[]; // bulk copies, sums, then records
    __shared__ __align__(16) T queries[MOST_HEADS * PITCH];
    __shared__ __align__(16) T newest[2 * MOST_DIM];
    __shared__ WarpParts warpParts;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    dependentsMayStart();

    int position = positionNow(p);
    Share s(p, MOST_HEADS, position);
    auto slotOf = [&](int tile) { return tile * TILE < p.capacity ? tile * TILE : tile * TILE % p.capacity; };
    int tile = s.first + warp, slot = slotOf(tile);
    const bool fused = p.table != nullptr;
    const int64_t base = static_cast<int64_t>(s.kv) * p.capacity * D;
    const T* const keys = static_cast<const T*>(p.keys) + base;
    const T* const values = static_cast<const T*>(p.values) + base;
    // What is loaded: of keys g and g+8, and of the values of keys 2t, 2t+1, 2t+8, 2t+9.
    uint4 k[2][STEPS], v[4][HALVES];
    Behind<T, D> behind;
    if constexpr (BULK) {
        __shared__ __align__(8) uint64_t full[WARPS];
        behind = {memory + warp * 2 * behind.HALF, sharedAddress(full + warp), keys, values, 0};
        if (lane == 0) barrierInit(behind.full, 1);
        barrierInitFence();
        __syncwarp();
    }
    fetchAhead<T>(p, MOST_HEADS);
    // Rows of a tile that the row does not see, or that are not to be read, are read as their
    // neighbours: their weight is 0, and what the memory holds may not be a number.
    auto rowOf = [&](int tile, int row) {
        const int readable = fused ? s.end - 1 : s.end; // the newest comes from shared memory
        return max(min(row, readable - 1 - tile * TILE), max(s.begin - tile * TILE, 0));
    };
    auto load = [](const T* from) {
        if constexpr (BULK) {
            return *reinterpret_cast<const uint4*>(from);
        } else {
            return loadOnce(from);
        }
    };
    auto fetchKeys = [&](const T* keys, int tile, int slot) {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const T* const from = keys + static_cast<uint32_t>((slot + rowOf(tile, g + 8 * n)) * D + 8 * t);
#pragma unroll
            for (int j = 0; j < STEPS; j++) k[n][j] = load(from + 32 * j);
        }
    };
    auto fetchValues = [&](const T* values, int tile, int slot) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const T* const from = values + static_cast<uint32_t>((slot + rowOf(tile, 2 * t + n % 2 + n / 2 * 8)) * D + 8 * g);
#pragma unroll
            for (int j = 0; j < HALVES; j++) v[n][j] = load(from + 64 * j);
        }
    };

    // Heads that there are not are zeros.
    for (int i = s.heads * PITCH / lanesOf<T> + threadIdx.x; i < MOST_HEADS * PITCH / lanesOf<T>; i += THREADS) {
        reinterpret_cast<uint4*>(queries)[i] = make_uint4(0, 0, 0, 0);
    }
    Taken<T, TAKEN> taken;
    const bool has = threadIdx.x < taken.itemsOf(s, D, fused && blockIdx.x == gridDim.x - 1);
    waitForPredecessor();
    while (true) {
        const int now = OVERLAPPED ? positionNow(p) : position;
        // The row is asked for before keys and values, or it would come after them.
        if (has) taken.load(p, s, D, threadIdx.x);
        if (tile < s.last) {
            if constexpr (BULK) {
                behind.ask(slot);
            } else {
                fetchKeys(keys, tile, slot);
                fetchValues(values, tile, slot);
            }
        }
        if (now == position) break;
        if constexpr (BULK) {
            if (tile < s.last) behind.wait(); // it is of no use
            __syncwarp();
        }
        position = now;
        s = Share(p, MOST_HEADS, position);
        tile = s.first + warp, slot = slotOf(tile);
    }
    if (has) taken.keep(p, s, D, threadIdx.x, queries, PITCH, newest);
    __syncthreads();
    // next asks for what the warp has behind a tile that all its lanes have taken, if anything.
    auto next = [&](int tile) {
        slot += WARPS * TILE;
        while (slot >= p.capacity) slot -= p.capacity;
        __syncwarp();
        if (tile + WARPS < s.last) behind.ask(slot);
    };
    if constexpr (BULK) {
        if (tile < s.last) {
            const T* const from = behind.wait();
            fetchKeys(from, tile, 0);
            fetchValues(from + TILE * D, tile, 0);
            next(tile);
        }
    }

    float top = lowest(), sum = 0; // of head g; the sum is this lane's part
    float o[HALVES * 4][4] = {};    // of heads 2t and 2t+1, elements 64i + 8g + …
    const T* const query = queries + g * PITCH + 8 * t;
    for (; tile < s.last; tile += WARPS) {
        const int at = tile * TILE;
        const bool edge = at < s.begin || at + TILE > s.end;
        if (fused && at + TILE >= s.end) { // has the newest; what stands behind it is not to be seen
            const int fresh = s.end - 1 - at, lowest = s.begin - at;
#pragma unroll
            for (int n = 0; n < 2; n++) {
                if (max(g + 8 * n, lowest) < fresh) continue;
#pragma unroll
                for (int j = 0; j < STEPS; j++) k[n][j] = *reinterpret_cast<const uint4*>(newest + 8 * t + 32 * j);
            }
#pragma unroll
            for (int n = 0; n < 4; n++) {
                if (max(2 * t + n % 2 + n / 2 * 8, lowest) < fresh) continue;
#pragma unroll
                for (int j = 0; j < HALVES; j++) v[n][j] = *reinterpret_cast<const uint4*>(newest + MOST_DIM + 8 * g + 64 * j);
            }
        }
        float score[2][4] = {};
#pragma unroll
        for (int j = 0; j < STEPS; j++) {
            const uint4 q = *reinterpret_cast<const uint4*>(query + 32 * j);
#pragma unroll
            for (int n = 0; n < 2; n++) multiply<T>(score[n], q.x, 0, q.y, 0, k[n][j].x, k[n][j].y);
#pragma unroll
            for (int n = 0; n < 2; n++) multiply<T>(score[n], q.z, 0, q.w, 0, k[n][j].z, k[n][j].w);
        }
        const bool more = tile + WARPS < s.last;
        const T* come = nullptr; // the next tile, by bulk copies
        if constexpr (BULK) {
            if (more) come = behind.wait(), fetchKeys(come, tile + WARPS, 0);
        } else {
            slot += WARPS * TILE;
            while (slot >= p.capacity) slot -= p.capacity;
            if (more) fetchKeys(keys, tile + WARPS, slot);
        }

        float weights[4] = {score[0][0], score[0][1], score[1][0], score[1][1]}; // of head g, keys 2t, 2t+1, 2t+8, 2t+9
        float now = lowest();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            weights[i] *= p.scale;
            if (edge) {
                const int position = at + 2 * t + i % 2 + i / 2 * 8;
                if (position < s.begin || position >= s.end) weights[i] = lowest();
            }
            now = fmaxf(now, weights[i]);
        }
        now = fmaxf(now, __shfl_xor_sync(0xffffffff, now, 1));
        now = fmaxf(now, __shfl_xor_sync(0xffffffff, now, 2));
        if (__any_sync(0xffffffff, now > top)) {
            const float higher = fmaxf(now, top), factor = weightOf(top, higher);
            top = higher;
            sum *= factor;
            const float even = __shfl_sync(0xffffffff, factor, 8 * t), odd = __shfl_sync(0xffffffff, factor, 8 * t + 4);
#pragma unroll
            for (int i = 0; i < HALVES * 4; i++) o[i][0] *= even, o[i][1] *= odd, o[i][2] *= even, o[i][3] *= odd;
        }
        const float none = top == lowest() ? 0 : top;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            weights[i] = exp2Approximate(weights[i] - none);
            sum += weights[i];
        }
        const uint32_t low = pairOf<T>(weights[0], weights[1]), high = pairOf<T>(weights[2], weights[3]);
#pragma unroll
        for (int j = 0; j < HALVES; j++) {
            const uint32_t words[4][4] = {{v[0][j].x, v[0][j].y, v[0][j].z, v[0][j].w}, {v[1][j].x, v[1][j].y, v[1][j].z, v[1][j].w},
                                          {v[2][j].x, v[2][j].y, v[2][j].z, v[2][j].w}, {v[3][j].x, v[3][j].y, v[3][j].z, v[3][j].w}};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                multiply<T>(o[4 * j + i], __byte_perm(words[0][i], words[1][i], 0x5410), __byte_perm(words[0][i], words[1][i], 0x7632),
                            __byte_perm(words[2][i], words[3][i], 0x5410), __byte_perm(words[2][i], words[3][i], 0x7632), low, high);
            }
        }
        if (more) {
            if constexpr (BULK) {
                fetchValues(come + TILE * D, tile + WARPS, 0);
                next(tile + WARPS);
            } else {
                fetchValues(values, tile + WARPS, slot);
            }
        }
    }

    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    float* const sums = reinterpret_cast<float*>(memory + (BULK ? WARPS * 2 * behind.HALF : 0));
    const HeadShare mine(p, MOST_HEADS);
    const int thread = threadNumber(), leaving = thread / 32, row = thread % 32 / 4, column = thread % 4;
    if (column == 0) warpParts.top[leaving][row] = top, warpParts.sum[leaving][row] = sum;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (2 * column + h >= mine.heads) continue;
        float* const to = sums + (leaving * mine.heads + 2 * column + h) * D + 8 * row;
#pragma unroll
        for (int i = 0; i < HALVES * 2; i++) {
            *reinterpret_cast<float4*>(to + i / 2 * 64 + i % 2 * 4) = make_float4(o[2 * i][h], o[2 * i][h + 2], o[2 * i + 1][h], o[2 * i + 1][h + 2]);
        }
    }
    merge<T>(p, mine, MOST_HEADS, D, sums, warpParts);
}
#endif

} // namespace ga_attention_decode
