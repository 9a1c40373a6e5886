// tiled: C = A·B on CUDA cores, the way it was done before there were tensor cores:
// tiles in shared memory, a smaller tile of outputs in each thread's registers, and the
// next slab of K on its way while this one is multiplied.
//
// arch: 75 80 86 89 90a ptx90 100 120
//
// Words. The inner loop multiplies 32-bit words: a float for every floating type (fp16,
// bf16 and fp8 widen on their way into shared memory, once for each block instead of once
// for each use), or four int8 of one dp4a. A slab is CHUNKS·4 words deep.
//
// Tiles       threads          outputs of a thread  slab      shared memory
//   128x128   256 = 4×2 warps  8×8                   8 words  16 KB, two blocks an SM
//   64x64     128 = 2×2 warps  8×4                  16 words  16 KB
//   16x64     64  = 1×2 warps  4×4                  16 words  10 KB, for small M
//
// Roles: every thread loads chunks of four words of A and B into registers, multiplies the
// slab that is in shared memory, then stores its chunks into the other buffer. One
// barrier a slab.
//
// Shared memory: rows of A, then rows of B, as they are in memory: K runs along a row,
// so that both operands are stored and read 16 bytes at a time without transposing. A
// warp's lanes form 4 rows × 8 columns, and a thread's outputs lie 4 rows and 8 columns
// apart. Lanes that differ in bit 0 read the same chunk of A, and those that differ in
// bit 1 the same of B, which lets the hardware serve half a warp, 4 different chunks, in
// one pass. Slabs of four chunks are swizzled, chunk c of row r at c ^ (r/2 & 1), so that
// these 4 chunks, of successive rows, lie in different banks; with two chunks a row
// they do as they are.
//
// Arithmetic intensity: a 128×128 tile does 2·128·128 / (4·(128+128)) = 32 FLOP on each
// byte of fp32 from L2; a thread's 8×8 outputs do 64 multiply-adds on 16 words, that is 4
// loads of 16 bytes, two passes each: 8 passes of shared memory for each step of K of a
// warp, which takes 16 cycles of the 128 multipliers of an SM, and 32 where there are 64.
//
// Tails: rows beyond M or N repeat the last one, and are not stored; what lies beyond K in
// A is taken as zero without being read, and B is padded with zeros. A may have any
// alignment: where it lacks that of a chunk, elements are loaded one by one.

#include "tiled_tiles.cuh"
#include "tiles.cuh"

namespace ga_tiled {

// Words<T> is how four words of K come from memory into shared memory.
template <class T>
struct Words {
    static constexpr int ELEMENTS = 4;  // of a chunk
    using Acc = float;
    using Raw = Pack<T, ELEMENTS>;
    __device__ static __forceinline__ float4 widened(const Raw& r) {
        return make_float4(widen(r.at(0)), widen(r.at(1)), widen(r.at(2)), widen(r.at(3)));
    }
    using Chunk = float4;
    __device__ static __forceinline__ float multiplyAdd(const Chunk& a, const Chunk& b, float sum) {
        sum = fmaf(a.x, b.x, sum);
        sum = fmaf(a.y, b.y, sum);
        sum = fmaf(a.z, b.z, sum);
        return fmaf(a.w, b.w, sum);
    }
};

template <>
struct Words<int8_t> {
    static constexpr int ELEMENTS = 16;
    using Acc = int32_t;
    using Raw = Pack<int8_t, ELEMENTS>;
    using Chunk = int4;
    __device__ static __forceinline__ int4 widened(const Raw& r) {
        return make_int4(r.words[0], r.words[1], r.words[2], r.words[3]);
    }
    __device__ static __forceinline__ int32_t multiplyAdd(const Chunk& a, const Chunk& b, int32_t sum) {
        sum = __dp4a(a.x, b.x, sum);
        sum = __dp4a(a.y, b.y, sum);
        sum = __dp4a(a.z, b.z, sum);
        return __dp4a(a.w, b.w, sum);
    }
};

template <int WARPS_M_, int WARPS_N_, int TM_, int TN_, int CHUNKS_>
struct Tile {
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, TM = TM_, TN = TN_, CHUNKS = CHUNKS_;
    static constexpr int LANES_M = 4, LANES_N = 8;
    static constexpr int BM = WARPS_M * LANES_M * TM, BN = WARPS_N * LANES_N * TN;
    static constexpr int THREADS = WARPS_M * WARPS_N * 32;
    // Chunks that one thread brings in.
    static constexpr int LOADS_A = (BM * CHUNKS + THREADS - 1) / THREADS;
    static constexpr int LOADS_B = (BN * CHUNKS + THREADS - 1) / THREADS;

    static_assert(CHUNKS == 2 || CHUNKS == 4, "the swizzle is that of two or four chunks a row");
    static_assert(BM % 4 == 0, "rows of B are swizzled as if A were not there");
    static_assert(BN * CHUNKS % THREADS == 0, "every thread loads as much of B");

    // at is where chunk c of row r lies: begin(r) + chunk(r, c). Rows 4 apart are alike.
    __device__ static __forceinline__ int begin(int r) { return r * CHUNKS; }
    __device__ static __forceinline__ int chunk(int r, int c) { return CHUNKS == 4 ? c ^ (r >> 1 & 1) : c; }
    __device__ static __forceinline__ int at(int r, int c) { return begin(r) + chunk(r, c); }
};

// Place is where a block's tile begins and where in it the outputs of a thread do. It is
// worked out twice, before and after the loop, which is short of registers.
template <class Tile>
struct Place {
    int m0, n0, row, column;

    __device__ __forceinline__ explicit Place(const TileParams& p) {
        const int thread = threadNumber();
        const TileOrigin tile(p);
        m0 = tile.row * Tile::BM;
        n0 = tile.column * Tile::BN;
        const int lane = thread % 32, warp = thread / 32;
        row = warp % Tile::WARPS_M * (Tile::LANES_M * Tile::TM) + ((lane >> 1 & 1) | (lane >> 2 & 2));
        column = warp / Tile::WARPS_M * (Tile::LANES_N * Tile::TN) + ((lane & 1) | (lane >> 1 & 2) | (lane >> 2 & 4));
    }
};

template <class T, class Tile>
__device__ __forceinline__ void tiled(const TileParams& p) {
    using W = Words<T>;
    using Chunk = typename W::Chunk;
    using Acc = typename W::Acc;
    using Out = typename Numeric<T>::Out;
    constexpr int ROWS = Tile::BM + Tile::BN;
    constexpr int DEPTH = Tile::CHUNKS * W::ELEMENTS;  // of a slab, in elements
    __shared__ Chunk slabs[2][ROWS * Tile::CHUNKS];

    const Place<Tile> place(p);
    const int thread = threadIdx.x;

    // What this thread loads: chunk `column` of some rows.
    const int column = thread % Tile::CHUNKS, firstRow = thread / Tile::CHUNKS;
    constexpr int ROW_STEP = Tile::THREADS / Tile::CHUNKS;
    const T* a[Tile::LOADS_A];
    const T* b[Tile::LOADS_B];
#pragma unroll
    for (int i = 0; i < Tile::LOADS_A; i++) {
        const int row = min(place.m0 + firstRow + i * ROW_STEP, p.m - 1);
        a[i] = static_cast<const T*>(p.a) + row * p.lda + column * W::ELEMENTS;
    }
#pragma unroll
    for (int i = 0; i < Tile::LOADS_B; i++) {
        const int row = min(place.n0 + firstRow + i * ROW_STEP, p.n - 1);
        b[i] = static_cast<const T*>(p.b) + row * p.ldb + column * W::ELEMENTS;
    }
    typename W::Raw rawA[Tile::LOADS_A], rawB[Tile::LOADS_B];

    // load begins to read the slab at k.
    auto load = [&](int k) {
        if (p.alignedA && k + DEPTH <= p.k) {
#pragma unroll
            for (int i = 0; i < Tile::LOADS_A; i++) rawA[i] = W::Raw::load(a[i]);
#pragma unroll
            for (int i = 0; i < Tile::LOADS_B; i++) rawB[i] = W::Raw::load(b[i]);
        } else {
            const int left = p.k - k - column * W::ELEMENTS;  // elements from this chunk to the end of K
#pragma unroll
            for (int i = 0; i < Tile::LOADS_A; i++) rawA[i] = W::Raw::loadFirst(a[i], left);
            // A chunk of B that begins inside of K ends inside of the padding.
#pragma unroll
            for (int i = 0; i < Tile::LOADS_B; i++) rawB[i] = left > 0 ? W::Raw::load(b[i]) : W::Raw::zero();
        }
#pragma unroll
        for (int i = 0; i < Tile::LOADS_A; i++) a[i] += DEPTH;
#pragma unroll
        for (int i = 0; i < Tile::LOADS_B; i++) b[i] += DEPTH;
    };
    auto store = [&](Chunk* slab) {
#pragma unroll
        for (int i = 0; i < Tile::LOADS_A; i++) {
            const int row = firstRow + i * ROW_STEP;
            if (Tile::BM % ROW_STEP == 0 || row < Tile::BM) slab[Tile::at(row, column)] = W::widened(rawA[i]);
        }
#pragma unroll
        for (int i = 0; i < Tile::LOADS_B; i++) {
            slab[Tile::at(Tile::BM + firstRow + i * ROW_STEP, column)] = W::widened(rawB[i]);
        }
    };

    Acc sums[Tile::TM][Tile::TN];
#pragma unroll
    for (int i = 0; i < Tile::TM; i++) {
#pragma unroll
        for (int j = 0; j < Tile::TN; j++) sums[i][j] = 0;
    }
    auto multiply = [&](const Chunk* slab) {
        const Chunk* rowsA = slab + Tile::begin(place.row);
        const Chunk* rowsB = slab + Tile::begin(Tile::BM + place.column);
        // Unrolled, the compiler would load more fragments ahead than registers hold.
#pragma unroll 1
        for (int c = 0; c < Tile::CHUNKS; c++) {
            const Chunk* chunkA = rowsA + Tile::chunk(place.row, c);
            const Chunk* chunkB = rowsB + Tile::chunk(place.column, c);
            Chunk fragment[Tile::TN];
#pragma unroll
            for (int j = 0; j < Tile::TN; j++) {
                fragment[j] = chunkB[Tile::begin(j * Tile::LANES_N)];
            }
#pragma unroll
            for (int i = 0; i < Tile::TM; i++) {
                const Chunk row = chunkA[Tile::begin(i * Tile::LANES_M)];
#pragma unroll
                for (int j = 0; j < Tile::TN; j++) sums[i][j] = W::multiplyAdd(row, fragment[j], sums[i][j]);
            }
        }
    };

    load(0);
    store(slabs[0]);
    __syncthreads();
    int buffer = 0;
    for (int k = DEPTH; k - DEPTH < p.k; k += DEPTH) {
        // Beyond K these are zeros, and nothing uses them.
        load(k);
        multiply(slabs[buffer]);
        buffer ^= 1;
        store(slabs[buffer]);
        __syncthreads();
    }

    const Place<Tile> out(p);
#pragma unroll
    for (int i = 0; i < Tile::TM; i++) {
        const int row = out.m0 + out.row + i * Tile::LANES_M;
        if (row >= p.m) break;
        Out* c = static_cast<Out*>(p.c) + row * p.ldc;
#pragma unroll
        for (int j = 0; j < Tile::TN; j++) {
            const int col = out.n0 + out.column + j * Tile::LANES_N;
            if (col < p.n) c[col] = narrow<Out>(sums[i][j]);
        }
    }
}

#define TILE(M, N, WARPS_M, WARPS_N, WORDS) Tile<WARPS_M, WARPS_N, M / WARPS_M / 4, N / WARPS_N / 8, WORDS / 4>
#define TILED(name, T, M, N, WARPS_M, WARPS_N, WORDS, blocks)                                               \
    extern "C" __global__ void __launch_bounds__(TILE(M, N, WARPS_M, WARPS_N, WORDS)::THREADS, blocks)      \
        ga_tiled_##name##_##M##x##N(const __grid_constant__ TileParams p) {                                 \
        tiled<T, TILE(M, N, WARPS_M, WARPS_N, WORDS)>(p);                                                   \
    }

GA_TILED_TILES(TILED, fp32, float)
GA_TILED_TILES(TILED, fp16, __half)
GA_TILED_TILES(TILED, int8, int8_t)
#ifdef GA_HAS_BF16
GA_TILED_TILES(TILED, bf16, __nv_bfloat16)
#endif
#ifdef GA_HAS_FP8
GA_TILED_TILES(TILED, fp8, __nv_fp8_e4m3)
#endif

}  // namespace ga_tiled
