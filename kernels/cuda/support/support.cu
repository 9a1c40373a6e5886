// What a measurement needs beside products: contents of operands, packing, clocks, a
// gate that holds work back, and the readers that memory bandwidth is measured with.
//
// arch: 75 80 86 89 90a ptx90 100 120
//
// Every kernel here moves bytes. Those that must be fast give each thread 16 bytes at a
// time, with neighbouring threads at neighbouring addresses, and walk memory in a
// grid-stride loop, so that any grid is right and a few blocks a multiprocessor are
// enough. Shared memory, where one is used, is stated at its name.

#include "numeric.cuh"
#include "fill.cuh"

namespace ga_support {

constexpr int THREADS = 256;

__device__ __forceinline__ int64_t globalThread() {
    return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ __forceinline__ int64_t globalThreads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

__device__ __forceinline__ uint64_t globalTimer() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

// loadStreaming reads 16 bytes that nothing will read again soon.
__device__ __forceinline__ uint4 loadStreaming(const uint4* from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

// fillAll writes n elements of BITS bits, a word a thread: what limits it is the
// generator's arithmetic, not the width of its stores.
template <int BITS>
__device__ __forceinline__ void fillAll(void* dst, int64_t n, uint64_t seed, int dtype, int distribution) {
    constexpr int COUNT = 32 / BITS;  // elements of a word; divides 2^32
    uint32_t upper = 0;
    FillKeys keys = fillKeys(seed, upper);
    for (int64_t first = globalThread() * COUNT; first < n; first += globalThreads() * COUNT) {
        if (static_cast<uint32_t>(first >> 32) != upper) {
            upper = static_cast<uint32_t>(first >> 32);
            keys = fillKeys(seed, upper);
        }
        uint32_t word = 0;
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            word |= fillElement(static_cast<uint32_t>(first) + e, keys, dtype, distribution) << (e * BITS % 32);
        }
        if (n - first >= COUNT) {
            static_cast<uint32_t*>(dst)[first / COUNT] = word;
            continue;
        }
        for (int e = 0; e < n - first; e++, word >>= BITS % 32) {
            if (BITS == 16) static_cast<uint16_t*>(dst)[first + e] = static_cast<uint16_t>(word);
            if (BITS == 8) static_cast<uint8_t*>(dst)[first + e] = static_cast<uint8_t>(word);
        }
    }
}

struct FillParams {
    void* dst;  // 4-byte aligned
    int64_t n;  // elements
    uint64_t seed;
    int32_t dtype;         // FillDType
    int32_t distribution;  // FillDistribution
};

struct ZeroParams {
    void* dst;  // any address
    int64_t bytes;
};

struct TransposeParams {
    const void* src;  // rows × cols, srcLd elements apart
    void* dst;        // cols × dstLd: dst[c][r] = src[r][c], zeros from rows to dstLd
    int64_t rows, cols, srcLd, dstLd;
};

struct RealignParams {
    const void* src;  // any address
    void* dst;        // 16-byte aligned
    int64_t rows;
    int64_t colsBytes;   // bytes of a row that are copied
    int64_t srcLdBytes;  // distance of source rows, anything
    int64_t dstLdBytes;  // a multiple of 16, at least colsBytes; zeros fill the rest
};

// Stamp is the state of one multiprocessor's counters.
struct Stamp {
    uint64_t entry;  // cycles when the kernel began here
    uint64_t clock;  // cycles at a tick of the wall clock
    uint64_t time;   // the wall clock at that tick, in ns
    uint64_t seen;   // 1: this multiprocessor was stamped
};

struct StampParams {
    Stamp* out;           // indexed by the multiprocessor's number
    int32_t slots;        // of out
    int32_t holdCycles;   // how long a block stays at least
    int32_t limitCycles;  // how long a block waits for a tick at most
};

struct GateParams {
    const volatile int32_t* flag;  // host memory
    uint64_t* out;                 // {1 when it timed out, ns waited}
    int64_t timeoutNs;
    int32_t ticket;  // the gate opens when *flag has come to it
};

struct ReadParams {
    const uint4* src;  // 16-byte aligned
    int64_t vectors;   // of 16 bytes
    uint32_t* sink;    // takes a word that depends on everything read, or nothing
};

struct CopyParams {
    const uint4* src;
    uint4* dst;
    int64_t vectors;
};

constexpr int TRANSPOSE_TILE = 64;

// transposeTile turns one tile by way of shared memory, so that both sides are read
// and written along their rows. One more element a row spreads a column over the banks.
template <class T>
__device__ __forceinline__ void transposeTile(const TransposeParams& p) {
    __shared__ T tile[TRANSPOSE_TILE][TRANSPOSE_TILE + 1];
    const T* src = static_cast<const T*>(p.src);
    T* dst = static_cast<T*>(p.dst);
    int64_t tilesR = (p.dstLd + TRANSPOSE_TILE - 1) / TRANSPOSE_TILE;
    int64_t r0 = blockIdx.x % tilesR * TRANSPOSE_TILE, c0 = blockIdx.x / tilesR * TRANSPOSE_TILE;
    int along = threadIdx.x % TRANSPOSE_TILE, step = THREADS / TRANSPOSE_TILE;
    for (int r = threadIdx.x / TRANSPOSE_TILE; r < TRANSPOSE_TILE; r += step) {
        bool inside = r0 + r < p.rows && c0 + along < p.cols;
        tile[r][along] = inside ? src[(r0 + r) * p.srcLd + c0 + along] : zeroOf<T>();
    }
    __syncthreads();
    for (int c = threadIdx.x / TRANSPOSE_TILE; c < TRANSPOSE_TILE; c += step) {
        if (c0 + c < p.cols && r0 + along < p.dstLd) dst[(c0 + c) * p.dstLd + r0 + along] = tile[along][c];
    }
}

// chunkFrom gathers the 16 bytes at `from`, of which `valid` belong to the row; the
// others become zero. Whole words are read where they lie inside of [begin, end), the
// source matrix.
__device__ __forceinline__ uint4 chunkFrom(const char* from, int64_t valid, const char* begin, const char* end) {
    uint32_t out[4] = {0, 0, 0, 0};
    const int skew = static_cast<int>(reinterpret_cast<uint64_t>(from) & 3);
    const char* aligned = from - skew;
    const bool words = aligned >= begin && aligned + 20 <= end;
    if (words) {
        uint32_t w[5];
#pragma unroll
        for (int i = 0; i < 5; i++) w[i] = __ldg(reinterpret_cast<const uint32_t*>(aligned) + i);
#pragma unroll
        for (int i = 0; i < 4; i++) out[i] = __funnelshift_r(w[i], w[i + 1], skew * 8);
    } else {
#pragma unroll
        for (int i = 0; i < 16; i++) {
            if (i < valid) out[i / 4] |= static_cast<uint32_t>(static_cast<uint8_t>(from[i])) << (i % 4 * 8);
        }
    }
    if (valid < 16) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int keep = static_cast<int>(valid) - 4 * i;  // bytes of this word
            if (keep <= 0) {
                out[i] = 0;
            } else if (keep < 4) {
                out[i] &= (1u << (keep * 8)) - 1;
            }
        }
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

// ga_fill: elements from a distribution. Grid: any.
extern "C" __global__ void __launch_bounds__(THREADS) ga_fill(const __grid_constant__ FillParams p) {
    switch (p.dtype) {
        case FILL_FP32: fillAll<32>(p.dst, p.n, p.seed, FILL_FP32, p.distribution); break;
        case FILL_TF32: fillAll<32>(p.dst, p.n, p.seed, FILL_TF32, p.distribution); break;
        case FILL_FP16: fillAll<16>(p.dst, p.n, p.seed, FILL_FP16, p.distribution); break;
        case FILL_BF16: fillAll<16>(p.dst, p.n, p.seed, FILL_BF16, p.distribution); break;
        case FILL_FP8: fillAll<8>(p.dst, p.n, p.seed, FILL_FP8, p.distribution); break;
        case FILL_INT8: fillAll<8>(p.dst, p.n, p.seed, FILL_INT8, p.distribution); break;
    }
}

// ga_zero: bytes of zero. Grid: any.
extern "C" __global__ void __launch_bounds__(THREADS) ga_zero(const __grid_constant__ ZeroParams p) {
    char* dst = static_cast<char*>(p.dst);
    int64_t head = min(static_cast<int64_t>(-reinterpret_cast<uint64_t>(dst) & 15), p.bytes);
    int64_t vectors = (p.bytes - head) / 16;
    for (int64_t i = globalThread(); i < vectors; i += globalThreads()) {
        reinterpret_cast<uint4*>(dst + head)[i] = make_uint4(0, 0, 0, 0);
    }
    int64_t tail = head + vectors * 16, t = globalThread();
    if (t < head) dst[t] = 0;
    if (t < p.bytes - tail) dst[tail + t] = 0;
}

// ga_transpose_<bytes of an element>: [K,N] weights to packed [N,K]. Grid: a block a tile of
// 64×64 of the destination, its padding included. Shared memory: 64·65 elements.
extern "C" __global__ void __launch_bounds__(THREADS) ga_transpose_1(const __grid_constant__ TransposeParams p) {
    transposeTile<uint8_t>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) ga_transpose_2(const __grid_constant__ TransposeParams p) {
    transposeTile<uint16_t>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) ga_transpose_4(const __grid_constant__ TransposeParams p) {
    transposeTile<uint32_t>(p);
}

// ga_realign: a copy whose rows begin at multiples of 16 bytes and end in zeros; also
// packs weights that are [N,K] already. Grid: x any, y any; threads along x lie along
// a row.
extern "C" __global__ void __launch_bounds__(THREADS) ga_realign(const __grid_constant__ RealignParams p) {
    const char* begin = static_cast<const char*>(p.src);
    const char* end = begin + (p.rows - 1) * p.srcLdBytes + p.colsBytes;
    const bool aligned = ((reinterpret_cast<uint64_t>(p.src) | p.srcLdBytes) & 15) == 0;
    const int64_t firstColumn = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 16;
    const int64_t firstRow = static_cast<int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
    const int64_t strideColumns = static_cast<int64_t>(gridDim.x) * blockDim.x * 16;
    const int64_t strideRows = static_cast<int64_t>(gridDim.y) * blockDim.y;
    for (int64_t column = firstColumn; column < p.dstLdBytes; column += strideColumns) {
        const int64_t valid = p.colsBytes - column;
        const char* src = begin + column;
        char* dst = static_cast<char*>(p.dst) + column;
        if (valid <= 0) {
            for (int64_t row = firstRow; row < p.rows; row += strideRows) {
                *reinterpret_cast<uint4*>(dst + row * p.dstLdBytes) = make_uint4(0, 0, 0, 0);
            }
        } else if (aligned && valid >= 16) {
#pragma unroll 4
            for (int64_t row = firstRow; row < p.rows; row += strideRows) {
                *reinterpret_cast<uint4*>(dst + row * p.dstLdBytes) =
                    __ldg(reinterpret_cast<const uint4*>(src + row * p.srcLdBytes));
            }
        } else {
#pragma unroll 2
            for (int64_t row = firstRow; row < p.rows; row += strideRows) {
                const uint4 chunk = chunkFrom(src + row * p.srcLdBytes, valid, begin, end);
                *reinterpret_cast<uint4*>(dst + row * p.dstLdBytes) = chunk;
            }
        }
    }
}

// ga_stamp: the cycle counter and the wall clock of every multiprocessor. Grid: a
// block for each, one thread, with so much dynamic shared memory that a
// multiprocessor takes one block only; holdCycles keeps the first from ending before
// the last has begun.
//
// The wall clock ticks in steps of tens of nanoseconds to a microsecond, so the cycles
// are read right after a tick.
extern "C" __global__ void __launch_bounds__(1) ga_stamp(const __grid_constant__ StampParams p) {
    uint64_t entry = clock64();
    uint64_t before = globalTimer(), time = before, now;
    do {
        time = globalTimer();
        now = clock64();
    } while (time == before && now - entry < p.limitCycles);
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (sm < static_cast<uint32_t>(p.slots)) p.out[sm] = Stamp{entry, now, time, 1};
    while (clock64() - entry < p.holdCycles) {
    }
}

// ga_gate: holds back what follows in its stream until the host says go. Grid: one
// block, one thread. The wait ends by itself after timeoutNs, so that a host that died
// leaves no GPU spinning.
extern "C" __global__ void __launch_bounds__(1) ga_gate(const __grid_constant__ GateParams p) {
    uint64_t start = globalTimer(), waited = 0;
    bool open;
    do {
        open = *p.flag - p.ticket >= 0;
        waited = globalTimer() - start;
        if (!open) __nanosleep(200);
    } while (!open && waited < p.timeoutNs);
    p.out[0] = open ? 0 : 1;
    p.out[1] = waited;
}

// ga_read: reads memory once, eight independent loads of 16 bytes a thread at a time. Grid: any.
extern "C" __global__ void __launch_bounds__(512) ga_read(const __grid_constant__ ReadParams p) {
    constexpr int UNROLL = 8;
    uint32_t sum = 0;
    int64_t stride = globalThreads(), i = globalThread();
    for (; i + (UNROLL - 1) * stride < p.vectors; i += UNROLL * stride) {
        uint4 v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) v[u] = loadStreaming(p.src + i + u * stride);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) sum ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
    }
    for (; i < p.vectors; i += stride) {
        uint4 v = loadStreaming(p.src + i);
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
    }
    // The store makes the loads necessary; that it almost never happens keeps it free.
    if (sum == 0x5bd1e995u) *p.sink = sum;
}

// ga_copy: copies memory, four independent 16-byte loads a thread at a time. Grid: any.
extern "C" __global__ void __launch_bounds__(512) ga_copy(const __grid_constant__ CopyParams p) {
    constexpr int UNROLL = 4;
    int64_t stride = globalThreads(), i = globalThread();
    for (; i + (UNROLL - 1) * stride < p.vectors; i += UNROLL * stride) {
        uint4 v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) v[u] = loadStreaming(p.src + i + u * stride);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) __stcs(p.dst + i + u * stride, v[u]);
    }
    for (; i < p.vectors; i += stride) __stcs(p.dst + i, loadStreaming(p.src + i));
}

#if __CUDA_ARCH__ >= 900
// ga_read_bulk: reads memory once through bulk copies into shared memory: one thread a
// multiprocessor keeps BULK_STAGES copies of BULK_BYTES in flight, which takes no
// registers and so allows more bytes in flight than loads do. Grid: one block a
// multiprocessor. Dynamic shared memory: BULK_STAGES·(BULK_BYTES + 8).
extern "C" __global__ void __launch_bounds__(32) ga_read_bulk(const __grid_constant__ ReadParams p) {
    constexpr int BULK_BYTES = 8192, BULK_STAGES = 24;
    extern __shared__ __align__(128) char shared[];
    if (threadIdx.x != 0) return;
    const uint32_t ring = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    const uint32_t barriers = ring + BULK_BYTES * BULK_STAGES;
    const int64_t bytes = p.vectors * 16, step = static_cast<int64_t>(gridDim.x) * BULK_BYTES;
    for (int s = 0; s < BULK_STAGES; s++) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + s * 8) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    int64_t issue = static_cast<int64_t>(blockIdx.x) * BULK_BYTES, wait = issue;
    int issueStage = 0, waitStage = 0, inFlight = 0;
    uint32_t parity = 0;
    while (wait < bytes) {
        while (inFlight < BULK_STAGES && issue < bytes) {
            uint32_t size = static_cast<uint32_t>(min(bytes - issue, static_cast<int64_t>(BULK_BYTES)));
            uint32_t bar = barriers + issueStage * 8;
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(size) : "memory");
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    ring + issueStage * BULK_BYTES),
                "l"(reinterpret_cast<const char*>(p.src) + issue), "r"(size), "r"(bar)
                : "memory");
            issueStage = issueStage + 1 == BULK_STAGES ? 0 : issueStage + 1;
            issue += step;
            inFlight++;
        }
        uint32_t done = 0;
        while (done == 0) {
            asm volatile(
                "{\n.reg .pred q;\nmbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2;\nselp.u32 %0, 1, 0, q;\n}"
                : "=r"(done)
                : "r"(barriers + waitStage * 8), "r"(parity)
                : "memory");
        }
        if (++waitStage == BULK_STAGES) waitStage = 0, parity ^= 1;
        wait += step;
        inFlight--;
    }
}
#endif

}  // namespace ga_support
