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
// Where `bulk` is in the name, which is for 9.0 alone, each warp's next tile is fetched to
// shared memory by two bulk copies while the one before it is in registers. So one block a
// multiprocessor keeps memory as busy as two that load, and half as many blocks are to be
// merged. A place for more than one tile made it slower on an H200.
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
// then be another; and as far as the launch says so, L2 fetches what they will read, which is
// right whatever is still written. All else comes after the predecessor. With a table, the queries are rotated
// on the way in, and the last block rotates the newest key, puts it and its value into the
// cache and uses them from shared memory.

#include "attention_decode.cuh"
#include "attention_decode_tensor.cuh"

namespace ga_attention_decode {

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
GA_DECODE(fp16_tensor_64, 2, (tensor<__half, 64, false>))
GA_DECODE(fp16_tensor_128, 2, (tensor<__half, 128, false>))
GA_DECODE(bf16_tensor_64, 2, (tensor<__nv_bfloat16, 64, false>))
GA_DECODE(bf16_tensor_128, 2, (tensor<__nv_bfloat16, 128, false>))
#endif
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
GA_DECODE(fp16_bulk_128, 1, (tensor<__half, 128, true>))
GA_DECODE(bf16_bulk_128, 1, (tensor<__nv_bfloat16, 128, true>))
#endif

} // namespace ga_attention_decode
