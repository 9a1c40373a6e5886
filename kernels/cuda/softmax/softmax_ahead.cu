// arch: 90a ptx90
//
// softmax_ahead: rows one after the other, each in the registers of the blocks of a cluster, while
// the next one is on its way. Compute capability 9.0 and up.
//
// Threads   As in softmax_cluster; a cluster takes row after row, the next that no other has taken: how many
//           clusters run at a time, the GPU does not tell, and those that begin late find nothing left.
// In flight A block's stretch of the next row, to shared memory, by one bulk copy. It is on its way from when
//           all threads have taken the row before it from there: through the sums, the meeting and the
//           stores. So a block that is alone on its multiprocessor loads while it writes.
// Memory    Each element once in, once out.
// Meeting   As in softmax_cluster, with two sets of words that take turns: who sends to a set for the
//           second time has heard from all others since they read it, for a block's threads meet before
//           it sends. The first block counts rows in global memory, and says at each row which is the one
//           after the next. The last cluster leaves zeros there.

#include "bulk.cuh"
#include "softmax_ahead_tiles.cuh"
#include "softmax_row.cuh"

namespace ga_softmax_ahead {

constexpr int THREADS = 1024;

// receivedIn waits for the phase of the given parity of a barrier that other blocks send to.
__device__ __forceinline__ void receivedIn(uint32_t bar, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
        "@!p bra.uni WAIT;\n"
        "}" ::"r"(bar), "r"(parity) : "memory");
}

// Counters are in global memory, zeros before and after a launch.
struct Counters {
    uint32_t taken, left; // rows that clusters have taken, and clusters that have left
};

// Meetings is ClusterMeeting for any number of rows.
struct Meetings {
    uint64_t start;       // of the first two rows
    uint64_t barriers[2];
    uint64_t taken;       // the row after the next, in the first block
    uint64_t rows[4];     // of turn t at t mod 4, from the meeting of turn t - 2 to that of turn t + 2
    uint64_t from[2][mostBlocks]; // Weights

    static __device__ __forceinline__ uint32_t bytes(uint32_t blocks) { return 8 * blocks + 8; }

    // row is the row of a turn, this one or the next.
    __device__ __forceinline__ int row(uint32_t turn) const { return static_cast<int>(*const_cast<const volatile uint64_t*>(&rows[turn & 3])); }

    __device__ __forceinline__ void begin(uint32_t blocks) {
        if (threadIdx.x == 0) {
            barrierInit(sharedAddress(&barriers[0]), 1);
            barrierInit(sharedAddress(&barriers[1]), 1);
        }
        clusterArrive(sharedAddress(&start), 16); // makes all known
        if (threadIdx.x == 0) {
            barrierExpect(sharedAddress(&barriers[0]), bytes(blocks));
            barrierExpect(sharedAddress(&barriers[1]), bytes(blocks));
        }
    }

    // take finds the cluster's first two rows; all blocks have begun.
    __device__ __forceinline__ void take(Counters* counters, uint32_t rank, uint32_t blocks) {
        if (rank == 0 && threadIdx.x < 32) {
            uint32_t first = 0;
            if (threadIdx.x == 0) first = atomicAdd(&counters->taken, 2);
            first = __shfl_sync(0xffffffff, first, 0);
            if (threadIdx.x < blocks) {
                const uint32_t there = atRank(sharedAddress(&start), threadIdx.x);
                send(atRank(sharedAddress(&rows[0]), threadIdx.x), there, static_cast<uint64_t>(first));
                send(atRank(sharedAddress(&rows[1]), threadIdx.x), there, static_cast<uint64_t>(first + 1));
            }
        }
        receivedIn(sharedAddress(&start), 0);
    }

    // takeAfterNext finds the row after the next; one thread of the first block calls it, before a barrier.
    __device__ __forceinline__ void takeAfterNext(Counters* counters) { taken = atomicAdd(&counters->taken, 1); }

    // merged is ClusterMeeting::merged of the block's row of a turn.
    __device__ __forceinline__ Weights merged(Weights w, uint32_t rank, uint32_t blocks, float scale2, uint32_t turn) {
        const uint32_t set = turn & 1, parity = turn >> 1 & 1, bar = sharedAddress(&barriers[set]);
        if (threadIdx.x < blocks) {
            const uint32_t there = atRank(bar, threadIdx.x);
            const uint64_t word = static_cast<uint64_t>(__float_as_uint(w.sum)) << 32 | __float_as_uint(w.top);
            send(atRank(sharedAddress(&from[set][rank]), threadIdx.x), there, word);
            if (rank == 0) send(atRank(sharedAddress(&rows[turn + 2 & 3]), threadIdx.x), there, taken);
        }
        receivedIn(bar, parity);
        if (threadIdx.x == 0) barrierExpect(bar, bytes(blocks)); // of the row after the next
        const int lane = threadIdx.x % mostBlocks;
        Weights part = {lowest(), 0};
        if (lane < blocks) {
            const uint64_t word = *const_cast<volatile uint64_t*>(&from[set][lane]);
            part = {__uint_as_float(static_cast<uint32_t>(word)), __uint_as_float(static_cast<uint32_t>(word >> 32))};
        }
        return mergedOver<mostBlocks>(part, scale2);
    }
};

// Part is what a block has of a row: pieces [begin, end) of it.
template <class T, Form FORM>
struct Part : Row<T, FORM> {
    int begin, end;

    __device__ __forceinline__ Part(const SoftmaxParams& p, int number, int rank, int blocks) : Row<T, FORM>(p, number) {
        const int share = sharedBy<FORM>(this->pieces, blocks);
        begin = min(rank * share, this->pieces), end = min(begin + share, this->pieces);
    }

    // fetch begins to bring it to shared memory, and counts at barrier `bar`; one thread calls it.
    __device__ __forceinline__ void fetch(uint32_t to, uint32_t bar, bool stream) const {
        const uint32_t bytes = (end - begin) * 16;
        barrierExpect(bar, bytes);
        if (bytes > 0) bulkIn(to, this->in + static_cast<int64_t>(begin) * this->N, bytes, bar, onceIf(stream));
    }
};

template <class T, Form FORM, int VECTORS>
__device__ __forceinline__ void run(const SoftmaxParams& p) {
    extern __shared__ __align__(128) uint4 next[]; // this block's part of the next row
    __shared__ Weights parts[32];
    __shared__ __align__(8) Meetings meetings;
    __shared__ __align__(8) uint64_t come;
    const int rank = clusterRank(), blocks = clusterSize();
    const uint32_t bar = sharedAddress(&come), to = sharedAddress(next);
    if (threadIdx.x == 0) barrierInit(bar, 1); // known with the meetings' barriers
    meetings.begin(blocks);
    dependentsMayStart();
    waitForPredecessor();

    __syncthreads(); // barriers are known
    clusterWait();
    meetings.take(reinterpret_cast<Counters*>(p.exchange), rank, blocks);
    if (threadIdx.x == 0 && meetings.row(0) < p.rows) Part<T, FORM>(p, meetings.row(0), rank, blocks).fetch(to, bar, p.stream);
    const int ending = static_cast<int>(threadIdx.x) - static_cast<int>(blockDim.x - 32);
#pragma unroll 1
    for (uint32_t turn = 0; meetings.row(turn) < p.rows; turn++) {
        uint4 x[VECTORS];
        Weights w = {lowest(), 0};
        float logit = lowest();
        bool atEnd = false;
        int count;
        {
            const Part<T, FORM> part(p, meetings.row(turn), rank, blocks);
            count = part.end - part.begin;
            if constexpr (FORM == Form::ENDS) {
                atEnd = rank == blocks - 1 && ending >= 0 && ending < part.ends;
                if (atEnd) logit = widen(part.in[part.endAt(ending)]);
            }
        }
        barrierWait(bar, turn & 1);
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
            const int v = threadIdx.x + j * blockDim.x;
            if (v < count) x[j] = next[v];
        }
        __syncthreads(); // all have taken theirs
        if (threadIdx.x == 0) {
            if (meetings.row(turn + 1) < p.rows) Part<T, FORM>(p, meetings.row(turn + 1), rank, blocks).fetch(to, bar, p.stream);
            if (rank == 0) meetings.takeAfterNext(reinterpret_cast<Counters*>(p.exchange));
        }

        w.top = logit;
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
            if (threadIdx.x + j * blockDim.x < count) w.top = largestIn<T>(w.top, x[j]);
        }
        w.top = largestOf<32>(w.top);
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
            if (threadIdx.x + j * blockDim.x < count) w.sum += weightsIn<T>(x[j], baseOf(w.top), p.scale2);
        }
        if (atEnd) w.sum += weightOfLogit(logit, baseOf(w.top), p.scale2);
        w.sum = sumOf<32>(w.sum);
        w = mergedOverWarps(w, parts, p.scale2);
        w = meetings.merged(w, rank, blocks, p.scale2, turn);

        const Outcome outcome(p, w);
        // What is known of the row is found out again: pieces leave no registers for it.
        const Part<T, FORM> part(p, meetings.row(turn), rank, blocks);
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
            const int v = part.begin + threadIdx.x + j * blockDim.x;
            if (v < part.end) part.store(v, outcome.of<T>(x[j]), outcome.fill, p.stream);
        }
        if constexpr (FORM == Form::ENDS) {
            if (atEnd) part.out[part.endAt(ending)] = narrow<T>(outcome.ofOne(logit));
        }
    }
    if (rank == 0 && threadIdx.x == 0) {
        __threadfence(); // no row is taken behind this
        Counters* const counters = reinterpret_cast<Counters*>(p.exchange);
        if (atomicAdd(&counters->left, 1) == (gridDim.x >> __popc(blocks - 1)) - 1) *counters = {0, 0};
    }
}

#define SOFTMAX_AHEAD(name, T, suffix, form, vectors)                                         \
    extern "C" __global__ void __launch_bounds__(THREADS)                                      \
        ga_softmax_ahead_##name##suffix##_##vectors(const __grid_constant__ SoftmaxParams p) { \
        run<T, form, vectors>(p);                                                              \
    }
#define SOFTMAX_AHEAD_OF(name, T)                                            \
    GA_SOFTMAX_AHEAD_TILES(SOFTMAX_AHEAD, name, T, _whole, Form::WHOLE)      \
    GA_SOFTMAX_AHEAD_TILES(SOFTMAX_AHEAD, name, T, _ends, Form::ENDS)

SOFTMAX_TYPES(SOFTMAX_AHEAD_OF)

}  // namespace ga_softmax_ahead
