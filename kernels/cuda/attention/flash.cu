// arch: 80 86 89 90a ptx90 100 120
//
// flash on any GPU from compute capability 8.0 on: attention of many rows with an online
// softmax (Dao 2023, FlashAttention-2), by cp.async, ldmatrix and mma.sync.
//
// Tile      64 rows of queries of one head against 64 keys at a time: 64 FLOP for each
//           byte of keys and values fetched. A block takes one tile of rows, the heaviest
//           blocks come first.
// Threads   4 warps of 16 rows each. Queries, scores, weights and output are in registers:
//           scores come as sums of mma.sync and leave, rounded, as its left operand.
// Shared    Two tiles of keys, then two of values, rows of 128 or 256 bytes in chunks of 16.
//           Chunk c of row r lies at c ^ (r & 7), so that the eight rows of a ldmatrix phase
//           fall into eight different groups of four banks.
// Copies    Keys are a tile ahead of the scores, values of the output. What no row of the
//           launch sees, which may never have been written, comes as zeros: a weight of
//           zero does not help against NaN.

#include "ampere.cuh"
#include "attention.cuh"

namespace ga_flash {

constexpr int THREADS = 128, ROWS = 64, KEYS = 64;

struct FlashParams {
    const char* q;
    const char* keys;
    const char* values;
    char* out;
    const int* position;
    long long ldq;         // in elements
    int rows, heads, group; // of queries; how many have one of keys
    int capacity, window, length;
    int rowTiles;
    float scale; // of scores, times log2 e
};

__device__ __forceinline__ void loadTransposed(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

template <bool BF16, int D>
struct Flash {
    static constexpr int ROW = 2 * D, CHUNKS = ROW / 16; // of keys and values
    static constexpr int TILE = KEYS * ROW;

    // load copies a tile of keys or values; end and begin bound what any row sees.
    static __device__ __forceinline__ void load(unsigned to, const char* plane, int tile, int capacity, int begin, int end) {
        const int slot = tile * KEYS % capacity;
        const char* from = plane + static_cast<long long>(slot) * ROW;
#pragma unroll
        for (int i = threadIdx.x; i < KEYS * CHUNKS; i += THREADS) {
            const int row = i / CHUNKS, chunk = i % CHUNKS, position = tile * KEYS + row;
            copy16(to + row * ROW + (chunk ^ row % 8) * 16, from + i * 16, position >= begin && position < end);
        }
    }

    static __device__ __forceinline__ void run(const FlashParams& p) {
        extern __shared__ char raw[];
        const unsigned keys = sharedAddress(raw), values = keys + 2 * TILE;
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int head = blockIdx.x % p.heads, firstRow = (p.rowTiles - 1 - blockIdx.x / p.heads) * ROWS;
        const int first = firstPosition(p.position, p.rows, p.length);
        const int begin = seenFrom(first, p.window).begin, end = first + p.rows;
        int tile = seenFrom(first + firstRow, p.window).begin / KEYS;
        const int lastTile = (first + min(firstRow + ROWS, p.rows) - 1) / KEYS;
        const long long plane = static_cast<long long>(head / p.group) * p.capacity * ROW;

        load(keys, p.keys + plane, tile, p.capacity, begin, end);
        copyCommit();
        load(values, p.values + plane, tile, p.capacity, begin, end);
        copyCommit();

        // This thread's rows are row and row+8: those of the fragments of mma.sync.
        const int row = firstRow + warp * 16 + lane / 4, position = first + row;
        unsigned q[D / 16][4];
#pragma unroll
        for (int k = 0; k < D / 16; k++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int r = row + e % 2 * 8;
                const long long at = r * p.ldq + head * D + k * 16 + e / 2 * 8 + lane % 4 * 2;
                q[k][e] = r < p.rows ? *reinterpret_cast<const unsigned*>(p.q + 2 * at) : 0;
            }

        float o[D / 8][4] = {}, most[2] = {lowest(), lowest()}, total[2] = {};
        for (int buffer = 0; tile <= lastTile; tile++, buffer ^= 1) {
            float s[KEYS / 8][4] = {};
            copyWait<1>();
            __syncthreads();
            const unsigned atKeys = keys + buffer * TILE + (lane % 8 + lane / 16 * 8) * ROW;
#pragma unroll
            for (int k = 0; k < D / 16; k++)
#pragma unroll
                for (int j = 0; j < KEYS / 16; j++) {
                    unsigned b[4];
                    loadMatrices(b, atKeys + j * 16 * ROW + ((2 * k + lane / 8 % 2) ^ lane % 8) * 16);
                    multiply<BF16>(s[2 * j], q[k][0], q[k][1], q[k][2], q[k][3], b[0], b[1]);
                    multiply<BF16>(s[2 * j + 1], q[k][0], q[k][1], q[k][2], q[k][3], b[2], b[3]);
                }
            if (tile < lastTile) load(keys + (buffer ^ 1) * TILE, p.keys + plane, tile + 1, p.capacity, begin, end);
            copyCommit();

            // Keys that a row does not see.
            const int relative = position - tile * KEYS - lane % 4 * 2;
            if (tile * KEYS + KEYS > first + firstRow || p.window > 0) {
#pragma unroll
                for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const int high = relative + e / 2 * 8, at = 8 * j + e % 2;
                        if (at > high || p.window > 0 && at <= high - p.window) s[j][e] = lowest();
                    }
            }
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float all = most[r];
#pragma unroll
                for (int j = 0; j < KEYS / 8; j++) all = fmaxf(all, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
                all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, 1));
                all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, 2));
                // A row may have seen nothing so far: infinity less infinity is no number.
                const float base = all == lowest() ? 0 : all * p.scale;
                const float fade = exp2Approximate(most[r] * p.scale - base);
                most[r] = all;
                total[r] *= fade;
#pragma unroll
                for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                    for (int e = 2 * r; e < 2 * r + 2; e++) {
                        s[j][e] = exp2Approximate(s[j][e] * p.scale - base);
                        total[r] += s[j][e];
                    }
#pragma unroll
                for (int j = 0; j < D / 8; j++) {
                    o[j][2 * r] *= fade;
                    o[j][2 * r + 1] *= fade;
                }
            }

            copyWait<1>();
            __syncthreads();
            if (tile < lastTile) load(values + (buffer ^ 1) * TILE, p.values + plane, tile + 1, p.capacity, begin, end);
            copyCommit();
            const unsigned atValues = values + buffer * TILE + lane % 16 * ROW;
#pragma unroll
            for (int k = 0; k < KEYS / 16; k++) {
                const unsigned a[4] = {packPair<BF16>(s[2 * k][0], s[2 * k][1]), packPair<BF16>(s[2 * k][2], s[2 * k][3]),
                                       packPair<BF16>(s[2 * k + 1][0], s[2 * k + 1][1]), packPair<BF16>(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
                for (int j = 0; j < D / 16; j++) {
                    unsigned b[4];
                    loadTransposed(b, atValues + k * 16 * ROW + ((2 * j + lane / 16) ^ lane % 8) * 16);
                    multiply<BF16>(o[2 * j], a[0], a[1], a[2], a[3], b[0], b[1]);
                    multiply<BF16>(o[2 * j + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
                }
            }
        }
        copyWait<0>();

#pragma unroll
        for (int r = 0; r < 2; r++) {
            total[r] += __shfl_xor_sync(0xffffffff, total[r], 1);
            total[r] += __shfl_xor_sync(0xffffffff, total[r], 2);
            const float factor = 1 / total[r];
            if (row + 8 * r < p.rows) {
                unsigned* to = reinterpret_cast<unsigned*>(p.out + 2 * ((static_cast<long long>(row + 8 * r) * p.heads + head) * D + lane % 4 * 2));
#pragma unroll
                for (int j = 0; j < D / 8; j++) to[4 * j] = packPair<BF16>(o[j][2 * r] * factor, o[j][2 * r + 1] * factor);
            }
        }
    }
};

#define GA_FLASH(NAME, BF16, D)                                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS) ga_flash_##NAME##_##D(const __grid_constant__ FlashParams p) { \
        Flash<BF16, D>::run(p);                                                                                     \
    }

GA_FLASH(fp16, false, 64)
GA_FLASH(bf16, true, 64)
GA_FLASH(fp16, false, 128)
GA_FLASH(bf16, true, 128)

} // namespace ga_flash
