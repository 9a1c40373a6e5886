// arch: 75 80 86 89 90a ptx90 100 120
//
// attention_decode: one row of queries against the ring of keys and values, as fast as
// memory gives them. Compute capability 7.5 and up.
//
// Two operations a byte and head of a group leave nothing to keep on the chip but queries
// and sums. A block serves the query heads of one head of keys and values, so that those
// are read once; the sequence is split among the blocks beside each other in x, and within
// a block among its 8 warps, in tiles of 16 keys. How many blocks there are is fixed; which
// tiles each has follows from the position in memory. Keys and values go from memory to
// registers, 16 bytes a load, without a stop: a tile of 16 × 128 elements of 16 bits is 8 KiB,
// a block has 64 KiB in flight, and two blocks fit a multiprocessor.
//
// fp16 and bf16 with heads of 64 or 128 elements multiply with mma.sync. Scores are
// queries (16 rows, of which up to 8 are heads) by keys: lane 4g+t holds bytes 16t … 16t+15
// of each 64 of keys g and g+8, and the same of head g; since a sum does not depend on the
// order of its terms, the words serve as the fragments of other places of the head. The
// scores that lane 4g+t gets, of head g and keys 2t, 2t+1, 2t+8, 2t+9, are the fragment that
// the second product wants of the weights; its other operand is values, transposed by a
// byte permutation between the rows of two keys: 16 elements of the head by 8 heads.
//
// All else multiplies on the CUDA cores: eight lanes have a key, each 16 bytes of every 128.
//
// Sums are fp32; so are the parts of warps and blocks, which are merged in their order.
// Warps meet in shared memory, [warp][head][element]. Of the output of a group, each of its
// blocks writes a slice, and gets the others' sums of it through global memory, word by word:
// a word of zeros is not there yet, any other is the complement of a float. Nobody needs a
// fence or an atomic operation; who reads a word leaves zeros. All blocks of a launch must be
// on the GPU at the same time. Blocks are no clusters, whose distributed shared memory would
// serve as well: those lie within a GPC, and GPCs so chosen have unequal work, which costs
// a third of the bandwidth on an H200.
//
// Overlapped launches (9.0): before the predecessor has ended, the kernels on tensor cores
// read the position and work out from it what to load, which they ask for again should it
// then be another; the others have L2 fetch what they will read, which is right whatever is
// still written. All else comes after the predecessor. With a table, the queries are rotated
// on the way in, and the last block rotates the newest key, puts it and its value into the
// cache and uses them from shared memory.

#include "ampere.cuh"
#include "attention_decode.cuh"

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

// tensor is the kernel on tensor cores: D elements a head.
template <class T, int D>
__device__ __forceinline__ void tensor(const Params& p) {
    constexpr int STEPS = D / 32;     // pieces of 64 bytes of a key
    constexpr int HALVES = D / 64;    // pieces of 128 bytes of a value
    constexpr int PITCH = D + 32;     // of a head in shared memory: lanes that load together are in other banks
    constexpr int TAKEN = 4;          // elements of a half of a head
    constexpr bool BFLOAT = isBfloat<T>;
    constexpr bool OVERLAPPED = __CUDA_ARCH__ >= 900;
    static_assert((MOST_HEADS + 2) * (D / 2 / TAKEN) <= THREADS, "a thread takes more than one item of the row");
    extern __shared__ __align__(16) unsigned char memory[]; // sums, then records
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
    // Rows of a tile that the row does not see, or that are not to be read, are read as their
    // neighbours: their weight is 0, and what the memory holds may not be a number.
    auto rowOf = [&](int tile, int row) {
        const int readable = fused ? s.end - 1 : s.end; // the newest comes from shared memory
        return max(min(row, readable - 1 - tile * TILE), max(s.begin - tile * TILE, 0));
    };
    auto fetchKeys = [&](int tile, int slot) {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const T* const from = keys + static_cast<uint32_t>((slot + rowOf(tile, g + 8 * n)) * D + 8 * t);
#pragma unroll
            for (int j = 0; j < STEPS; j++) k[n][j] = loadOnce(from + 32 * j);
        }
    };
    auto fetchValues = [&](int tile, int slot) {
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const T* const from = values + static_cast<uint32_t>((slot + rowOf(tile, 2 * t + n % 2 + n / 2 * 8)) * D + 8 * g);
#pragma unroll
            for (int j = 0; j < HALVES; j++) v[n][j] = loadOnce(from + 64 * j);
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
            fetchKeys(tile, slot);
            fetchValues(tile, slot);
        }
        if (now == position) break;
        position = now;
        s = Share(p, MOST_HEADS, position);
        tile = s.first + warp, slot = slotOf(tile);
    }
    if (has) taken.keep(p, s, D, threadIdx.x, queries, PITCH, newest);
    __syncthreads();

    float top = lowest(), sum = 0; // of head g; the sum is this lane's part
    float o[HALVES * 4][4] = {};    // of heads 2t and 2t+1, elements 64i + 8g + …
    const T* const query = queries + g * PITCH + 8 * t;
    const int stride = WARPS * TILE;
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
            for (int n = 0; n < 2; n++) multiply<BFLOAT>(score[n], q.x, 0, q.y, 0, k[n][j].x, k[n][j].y);
#pragma unroll
            for (int n = 0; n < 2; n++) multiply<BFLOAT>(score[n], q.z, 0, q.w, 0, k[n][j].z, k[n][j].w);
        }
        slot += stride;
        while (slot >= p.capacity) slot -= p.capacity;
        const bool more = tile + WARPS < s.last;
        if (more) fetchKeys(tile + WARPS, slot);

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
                multiply<BFLOAT>(o[4 * j + i], __byte_perm(words[0][i], words[1][i], 0x5410), __byte_perm(words[0][i], words[1][i], 0x7632),
                            __byte_perm(words[2][i], words[3][i], 0x5410), __byte_perm(words[2][i], words[3][i], 0x7632), low, high);
            }
        }
        if (more) fetchValues(tile + WARPS, slot);
    }

    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    float* const sums = reinterpret_cast<float*>(memory);
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

// cores is the kernel on CUDA cores, for heads of up to D elements, of which a block takes
// H: lane 8g+c has the pieces c, c+8, … of key g of four.
template <class T, int D, int H>
__device__ __forceinline__ void cores(const Params& p) {
    constexpr int N = lanesOf<T>, PIECES = D / (8 * N);
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ __align__(16) float queries[H * D];
    __shared__ __align__(16) T newest[2 * MOST_DIM];
    __shared__ WarpParts warpParts;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 8, c = lane % 8;
    dependentsMayStart();
    fetchAhead<T>(p, H);
    for (int i = threadIdx.x; i < H * D; i += THREADS) queries[i] = 0; // behind the end of a head
    __syncthreads();
    waitForPredecessor();

    const Share s(p, H, firstPosition(p.position, 1, p.length));
    const bool fused = p.table != nullptr;
    const int items = Taken<T, 1>::itemsOf(s, p.dim, fused && blockIdx.x == gridDim.x - 1);
#pragma unroll 1
    for (int i = threadIdx.x; i < items; i += THREADS) {
        Taken<T, 1> taken;
        taken.load(p, s, p.dim, i);
        taken.keep(p, s, p.dim, i, queries, D, newest);
    }
    __syncthreads();

    const int64_t base = static_cast<int64_t>(s.kv) * p.capacity * p.dim;
    const T* const keys = static_cast<const T*>(p.keys) + base;
    const T* const values = static_cast<const T*>(p.values) + base;
    float top[H], sum[H], o[H][PIECES][N] = {};
#pragma unroll
    for (int h = 0; h < H; h++) top[h] = lowest(), sum[h] = 0;

    // load reads this lane's pieces of a row, from memory or shared memory; zeros where there is none.
    auto load = [&](uint4(&to)[PIECES], const T* ring, const T* fresh, int position, int slot) {
        const bool there = position >= s.begin && position < s.end;
        const T* const from = fused && position == s.end - 1 ? fresh : ring + static_cast<int64_t>(slot) * p.dim;
#pragma unroll
        for (int j = 0; j < PIECES; j++) {
            const int at = (c + 8 * j) * N;
            to[j] = there && at < p.dim ? loadPiece(from + at, p.dim - at, p.whole) : make_uint4(0, 0, 0, 0);
        }
    };
    // A step of a warp is four keys.
    const int steps = s.first + warp < s.last ? ((s.last - s.first - warp - 1) / WARPS + 1) * (TILE / 4) : 0;
    int position = (s.first + warp) * TILE + g, slot = position % p.capacity;
    uint4 k[PIECES], v[PIECES];
    if (steps > 0) load(k, keys, newest, position, slot);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        load(v, values, newest + MOST_DIM, position, slot);
        float score[H] = {};
#pragma unroll
        for (int j = 0; j < PIECES; j++) {
            const Floats<T> key = unpack<T>(k[j]);
#pragma unroll
            for (int h = 0; h < H; h++) {
                const float4* q = reinterpret_cast<const float4*>(queries + h * D + (c + 8 * j) * N);
#pragma unroll
                for (int i = 0; i < N; i += 4) {
                    const float4 part = q[i / 4];
                    score[h] = fmaf(key.v[i], part.x, fmaf(key.v[i + 1], part.y, fmaf(key.v[i + 2], part.z, fmaf(key.v[i + 3], part.w, score[h]))));
                }
            }
        }
        const bool there = position >= s.begin && position < s.end;
        const bool turn = step % (TILE / 4) == TILE / 4 - 1; // to the warp's next tile
        position += 4 + (turn ? (WARPS - 1) * TILE : 0);
        slot += 4 + (turn ? (WARPS - 1) * TILE : 0);
        while (slot >= p.capacity) slot -= p.capacity;
        if (step + 1 < steps) load(k, keys, newest, position, slot);
        float weight[H];
#pragma unroll
        for (int h = 0; h < H; h++) {
#pragma unroll
            for (int i = 1; i < 8; i *= 2) score[h] += __shfl_xor_sync(0xffffffff, score[h], i);
            score[h] = there ? score[h] * p.scale : lowest();
            const float higher = fmaxf(top[h], score[h]), factor = weightOf(top[h], higher);
            weight[h] = weightOf(score[h], higher);
            top[h] = higher;
            sum[h] = fmaf(sum[h], factor, weight[h]);
#pragma unroll
            for (int j = 0; j < PIECES; j++) {
#pragma unroll
                for (int i = 0; i < N; i++) o[h][j][i] *= factor;
            }
        }
#pragma unroll
        for (int j = 0; j < PIECES; j++) {
            const Floats<T> value = unpack<T>(v[j]);
#pragma unroll
            for (int h = 0; h < H; h++) {
#pragma unroll
                for (int i = 0; i < N; i++) o[h][j][i] = fmaf(weight[h], value.v[i], o[h][j][i]);
            }
        }
    }

    float* const sums = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int h = 0; h < H; h++) {
        float all = fmaxf(top[h], __shfl_xor_sync(0xffffffff, top[h], 8));
        all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, 16));
        const float factor = weightOf(top[h], all);
        // Lanes of the same elements add up.
        auto total = [&](float x) {
            x *= factor;
            x += __shfl_xor_sync(0xffffffff, x, 8);
            return x + __shfl_xor_sync(0xffffffff, x, 16);
        };
        sum[h] = total(sum[h]);
        if (lane == 0) warpParts.top[warp][h] = all, warpParts.sum[warp][h] = sum[h];
#pragma unroll
        for (int j = 0; j < PIECES; j++) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                const float x = total(o[h][j][i]);
                const int at = (c + 8 * j) * N + i;
                if (g == 0 && h < s.heads && at < p.dim) sums[(warp * s.heads + h) * p.dim + at] = x;
            }
        }
    }
    merge<T>(p, s, H, p.dim, sums, warpParts);
}

#define GA_DECODE(NAME, BLOCKS, CALL)                                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) ga_attention_decode_##NAME( \
        const __grid_constant__ Params p) {                                                  \
        CALL(p);                                                                             \
    }
#define GA_DECODE_CORES(DTYPE, ...)                            \
    GA_DECODE(DTYPE##_64, 1, (cores<__VA_ARGS__, 64, 8>))      \
    GA_DECODE(DTYPE##_128, 1, (cores<__VA_ARGS__, 128, 4>))    \
    GA_DECODE(DTYPE##_256, 1, (cores<__VA_ARGS__, 256, 2>))

GA_DECODE_CORES(fp32, float)
GA_DECODE_CORES(fp16, __half)
#if __CUDA_ARCH__ >= 800
GA_DECODE_CORES(bf16, __nv_bfloat16)
GA_DECODE(fp16_tensor_64, 2, (tensor<__half, 64>))
GA_DECODE(fp16_tensor_128, 2, (tensor<__half, 128>))
GA_DECODE(bf16_tensor_64, 2, (tensor<__nv_bfloat16, 64>))
GA_DECODE(bf16_tensor_128, 2, (tensor<__nv_bfloat16, 128>))
#endif

} // namespace ga_attention_decode
