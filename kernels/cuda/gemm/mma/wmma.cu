// wmma: C = A·B on tensor cores through the WMMA API, the portable way: fragments are
// opaque, and so shared memory has to be laid out for whatever the API loads them with.
//
// arch: 75 80 86 89 90a ptx90
//
// Types: fp16 and int8 from 7.5 on, bf16 and tf32 from 8.0 on; the API has no fp8. A
// fragment is 16×16 outputs and 16 deep, 8 for tf32, whose operands are rounded to
// nearest on their way from shared memory into a fragment.
//
// Tiles       threads          fragments of a warp  shared memory
//   128x128   256 = 2×4 warps  4×2                  40 KB, two blocks an SM (7.5: one)
//   64x64     128 = 2×2 warps  2×2                  20 KB
//   16x64     128 = 1×4 warps  1×1                  13 KB, for small M
//
// Roles: every thread copies 16-byte chunks of A and B, and every warp multiplies: while it
// does, the next slab is on its way into the other buffer, by cp.async, or on 7.5 into
// registers from where it is stored afterwards. One barrier a slab. At the end each warp takes its sums through
// 16×20 words of its own to the rows and columns of C that exist.
//
// Shared memory: a slab is 64 bytes of K, four chunks a row, rows of A and then rows
// of B. The API wants fragments to begin at multiples of 32 bytes. Rows of 16-bit and
// 32-bit elements are padded to 80 bytes, so that eight rows fall into different banks;
// a fragment of int8 is one chunk wide, which lies in a plane of its own, row after row.
//
// Arithmetic intensity: a 128×128 tile of 16-bit operands does 2·128·128 / (2·(128+128)) =
// 64 FLOP on each byte from L2; a warp's 64×32 outputs do 2·64·32 / (2·(64+32)) = 21 on
// each byte of shared memory, which is what holds it back.
//
// Tails: as in tiled.cu. Rows beyond M or N repeat the last one and are not stored; A
// beyond K is zero without being read; where A lacks the alignment of a chunk, its
// elements are loaded one by one.

#include <mma.h>

#include "tiles.cuh"
#include "wmma_tiles.cuh"

namespace ga_wmma {

namespace api = nvcuda::wmma;

constexpr int CHUNK = 16;     // bytes
constexpr int CHUNKS = 4;     // of a row of a slab
constexpr int FRAGMENT = 16;  // rows and columns

// Kind<T> is how operands of type T lie in shared memory and in fragments.
template <class Element_, class Fragment_, class Acc_, class Out_, int DEPTH_, bool PLANES_>
struct KindOf {
    using Element = Element_;    // in memory
    using Fragment = Fragment_;  // as the API names it
    using Acc = Acc_;
    using Out = Out_;
    static constexpr int DEPTH = DEPTH_;                      // of a fragment
    static constexpr bool PLANES = PLANES_;                   // a plane a chunk
    static constexpr int ELEMENTS = CHUNK / sizeof(Element);  // of a chunk
    static constexpr int SLAB = CHUNKS * ELEMENTS;            // elements of K in a slab
    static constexpr int ROW = PLANES ? CHUNK : CHUNK * CHUNKS + CHUNK;  // bytes
};

using FP16 = KindOf<__half, __half, float, __half, 16, false>;
using INT8 = KindOf<int8_t, signed char, int32_t, int32_t, 16, true>;
#ifdef GA_HAS_BF16
using BF16 = KindOf<__nv_bfloat16, __nv_bfloat16, float, __nv_bfloat16, 16, false>;
using TF32 = KindOf<float, api::precision::tf32, float, float, 8, false>;
#endif

template <int WARPS_M_, int WARPS_N_, int FM_, int FN_>
struct Tile {
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, FM = FM_, FN = FN_;
    static constexpr int BM = WARPS_M * FM * FRAGMENT, BN = WARPS_N * FN * FRAGMENT, ROWS = BM + BN;
    static constexpr int WARPS = WARPS_M * WARPS_N, THREADS = 32 * WARPS;
    static constexpr int ROW_STEP = THREADS / CHUNKS;  // rows that all threads load at once
    static constexpr int LOADS_A = (BM + ROW_STEP - 1) / ROW_STEP, LOADS_B = BN / ROW_STEP;

    static_assert(BN % ROW_STEP == 0, "every thread loads as much of B");
};

// SlabOf is where things lie in a slab of one kind and tile.
template <class Kind, class Tile>
struct SlabOf {
    // 32 more bytes a plane, so that the four chunks of a row fall into different banks.
    static constexpr int PLANE = Tile::ROWS * CHUNK + 2 * CHUNK;
    static constexpr int BYTES = Kind::PLANES ? CHUNKS * PLANE : Tile::ROWS * Kind::ROW;

    __device__ static __forceinline__ int at(int row, int chunk) {
        return Kind::PLANES ? chunk * PLANE + row * CHUNK : row * Kind::ROW + chunk * CHUNK;
    }
};

#if __CUDA_ARCH__ >= 800
// copyAsync copies a chunk to shared memory without waiting: its first bytes from memory,
// the others as zeros.
__device__ __forceinline__ void copyAsync(char* to, const void* from, int bytes) {
    const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}
#endif

constexpr int OUT_LD = 20;  // words from row to row of a warp's outputs on their way to C
constexpr int OUT_WORDS = FRAGMENT * OUT_LD;

template <class F>
__device__ __forceinline__ void roundToTF32(F& fragment) {
#ifdef GA_HAS_BF16
#pragma unroll
    for (int i = 0; i < fragment.num_elements; i++) fragment.x[i] = api::__float_to_tf32(fragment.x[i]);
#endif
}

// Place is where a block's tile begins and where in it the outputs of a warp do. It is
// worked out twice, before and after the loop, which is short of registers.
template <class Tile>
struct Place {
    int m0, n0, row, column, warp, lane;

    __device__ __forceinline__ explicit Place(const TileParams& p) {
        const TileOrigin tile(p);
        m0 = tile.row * Tile::BM;
        n0 = tile.column * Tile::BN;
        const int thread = threadNumber();
        lane = thread % 32;
        warp = thread / 32;
        row = warp % Tile::WARPS_M * (Tile::FM * FRAGMENT);
        column = warp / Tile::WARPS_M * (Tile::FN * FRAGMENT);
    }
};

template <class Kind, class Tile>
__device__ __forceinline__ void product(const TileParams& p) {
    using T = typename Kind::Element;
    using Acc = typename Kind::Acc;
    using Out = typename Kind::Out;
    using Slab = SlabOf<Kind, Tile>;
    using Raw = Pack<T, Kind::ELEMENTS>;
    using FragmentA = api::fragment<api::matrix_a, 16, 16, Kind::DEPTH, typename Kind::Fragment, api::row_major>;
    using FragmentB = api::fragment<api::matrix_b, 16, 16, Kind::DEPTH, typename Kind::Fragment, api::col_major>;
    using Sums = api::fragment<api::accumulator, 16, 16, Kind::DEPTH, Acc>;
    constexpr bool TENSOR_FLOAT = sizeof(T) == 4;
    constexpr int OUT_BYTES = Tile::WARPS * OUT_WORDS * 4;
    constexpr int BYTES = 2 * Slab::BYTES > OUT_BYTES ? 2 * Slab::BYTES : OUT_BYTES;
    __shared__ __align__(128) char shared[BYTES];

    const Place<Tile> place(p);
    const int thread = threadIdx.x;

    // What this thread loads: chunk `column` of some rows.
    const int column = thread % CHUNKS, firstRow = thread / CHUNKS;
    const T* a[Tile::LOADS_A];
    const T* b[Tile::LOADS_B];
#pragma unroll
    for (int i = 0; i < Tile::LOADS_A; i++) {
        const int row = min(place.m0 + firstRow + i * Tile::ROW_STEP, p.m - 1);
        a[i] = static_cast<const T*>(p.a) + row * p.lda + column * Kind::ELEMENTS;
    }
#pragma unroll
    for (int i = 0; i < Tile::LOADS_B; i++) {
        const int row = min(place.n0 + firstRow + i * Tile::ROW_STEP, p.n - 1);
        b[i] = static_cast<const T*>(p.b) + row * p.ldb + column * Kind::ELEMENTS;
    }
    // A slab is brought in by begin, which does not wait for memory where it can help it, and
    // finish, which does. What lies beyond K becomes zeros; beyond that nothing is read.
#if __CUDA_ARCH__ >= 800
    auto begin = [&](int k, char* slab) {
        const int left = p.k - k - column * Kind::ELEMENTS;  // elements from this chunk to the end of K
        const int bytes = max(0, min(CHUNK, left * static_cast<int>(sizeof(T))));
#pragma unroll
        for (int i = 0; i < Tile::LOADS_A; i++) {
            const int row = firstRow + i * Tile::ROW_STEP;
            if (Tile::BM % Tile::ROW_STEP == 0 || row < Tile::BM) {
                if (p.alignedA) {
                    copyAsync(slab + Slab::at(row, column), a[i], bytes);
                } else {
                    Raw::loadFirst(a[i], left).store(slab + Slab::at(row, column));
                }
            }
            a[i] += Kind::SLAB;
        }
        // A chunk of B that begins inside of K ends inside of the padding.
#pragma unroll
        for (int i = 0; i < Tile::LOADS_B; i++) {
            const int row = Tile::BM + firstRow + i * Tile::ROW_STEP;
            copyAsync(slab + Slab::at(row, column), b[i], left > 0 ? CHUNK : 0);
            b[i] += Kind::SLAB;
        }
    };
    auto finish = [&](char*) { asm volatile("cp.async.wait_all;" ::: "memory"); };
#else
    Raw rawA[Tile::LOADS_A], rawB[Tile::LOADS_B];
    auto begin = [&](int k, char*) {
        const int left = p.k - k - column * Kind::ELEMENTS;
#pragma unroll
        for (int i = 0; i < Tile::LOADS_A; i++) {
            if (p.alignedA && k + Kind::SLAB <= p.k) {
                rawA[i] = Raw::load(a[i]);
            } else {
                rawA[i] = Raw::loadFirst(a[i], left);
            }
            a[i] += Kind::SLAB;
        }
#pragma unroll
        for (int i = 0; i < Tile::LOADS_B; i++) {
            rawB[i] = left > 0 ? Raw::load(b[i]) : Raw::zero();
            b[i] += Kind::SLAB;
        }
    };
    auto finish = [&](char* slab) {
#pragma unroll
        for (int i = 0; i < Tile::LOADS_A; i++) {
            const int row = firstRow + i * Tile::ROW_STEP;
            if (Tile::BM % Tile::ROW_STEP == 0 || row < Tile::BM) rawA[i].store(slab + Slab::at(row, column));
        }
#pragma unroll
        for (int i = 0; i < Tile::LOADS_B; i++) {
            rawB[i].store(slab + Slab::at(Tile::BM + firstRow + i * Tile::ROW_STEP, column));
        }
    };
#endif

    Sums sums[Tile::FM][Tile::FN];
#pragma unroll
    for (int i = 0; i < Tile::FM; i++) {
#pragma unroll
        for (int j = 0; j < Tile::FN; j++) api::fill_fragment(sums[i][j], Acc(0));
    }
    auto multiply = [&](const char* slab) {
#pragma unroll
        for (int k = 0; k < Kind::SLAB; k += Kind::DEPTH) {
            // A fragment is one, two or half of four chunks deep: it begins at one.
            const int chunk = k / Kind::ELEMENTS;
            constexpr int LD = Kind::ROW / sizeof(T);
            FragmentB fragmentB[Tile::FN];
#pragma unroll
            for (int j = 0; j < Tile::FN; j++) {
                const char* from = slab + Slab::at(Tile::BM + place.column + j * FRAGMENT, chunk);
                api::load_matrix_sync(fragmentB[j], reinterpret_cast<const T*>(from), LD);
                if constexpr (TENSOR_FLOAT) roundToTF32(fragmentB[j]);
            }
#pragma unroll
            for (int i = 0; i < Tile::FM; i++) {
                FragmentA fragmentA;
                const char* from = slab + Slab::at(place.row + i * FRAGMENT, chunk);
                api::load_matrix_sync(fragmentA, reinterpret_cast<const T*>(from), LD);
                if constexpr (TENSOR_FLOAT) roundToTF32(fragmentA);
#pragma unroll
                for (int j = 0; j < Tile::FN; j++) api::mma_sync(sums[i][j], fragmentA, fragmentB[j], sums[i][j]);
            }
        }
    };

    begin(0, shared);
    finish(shared);
    __syncthreads();
    int buffer = 0;
    for (int k = Kind::SLAB; k - Kind::SLAB < p.k; k += Kind::SLAB) {
        char* next = shared + (buffer ^ Slab::BYTES);
        if (k < p.k) begin(k, next);
        multiply(shared + buffer);
        if (k < p.k) finish(next);
        buffer ^= Slab::BYTES;
        __syncthreads();
    }

    // Sixteen lanes write a row of a fragment, the other sixteen the next.
    const Place<Tile> to(p);
    Acc* out = reinterpret_cast<Acc*>(shared) + to.warp * OUT_WORDS;
    const int laneRow = to.lane / FRAGMENT, laneColumn = to.lane % FRAGMENT;
#pragma unroll
    for (int i = 0; i < Tile::FM; i++) {
#pragma unroll
        for (int j = 0; j < Tile::FN; j++) {
            api::store_matrix_sync(out, sums[i][j], OUT_LD, api::mem_row_major);
            __syncwarp();
            const int row = to.m0 + to.row + i * FRAGMENT + laneRow;
            const int col = to.n0 + to.column + j * FRAGMENT + laneColumn;
            const int rows = col < p.n ? min(FRAGMENT, p.m - row) : 0;
            Out* c = static_cast<Out*>(p.c) + row * p.ldc + col;
            const Acc* from = out + laneRow * OUT_LD + laneColumn;
#pragma unroll 2
            for (int r = 0; r < rows; r += 2) c[r * p.ldc] = narrow<Out>(from[r * OUT_LD]);
            __syncwarp();
        }
    }
}

// Turing stages slabs in registers, of which as many blocks may have too few.
#if __CUDA_ARCH__ >= 800
#define BLOCKS(ampere, turing) ampere
#else
#define BLOCKS(ampere, turing) turing
#endif

#define TILE(M, N, WARPS_M, WARPS_N) Tile<WARPS_M, WARPS_N, M / WARPS_M / FRAGMENT, N / WARPS_N / FRAGMENT>
#define WMMA(name, Kind, M, N, WARPS_M, WARPS_N, ampere, turing)                                                        \
    extern "C" __global__ void __launch_bounds__(TILE(M, N, WARPS_M, WARPS_N)::THREADS, BLOCKS(ampere, turing))         \
        ga_wmma_##name##_##M##x##N(const __grid_constant__ TileParams p) {                                              \
        product<Kind, TILE(M, N, WARPS_M, WARPS_N)>(p);                                                                 \
    }

GA_WMMA_TILES(WMMA, fp16, FP16)
GA_WMMA_TILES(WMMA, int8, INT8)
#ifdef GA_HAS_BF16
GA_WMMA_TILES(WMMA, bf16, BF16)
GA_WMMA_TILES(WMMA, tf32, TF32)
#endif

}  // namespace ga_wmma
