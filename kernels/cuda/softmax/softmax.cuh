// What kernels of softmax share: where a row lies, 16 bytes of it at a time, and the
// arithmetic.
//
// A row is read and written in pieces of 16 bytes at multiples of 16, whatever address it
// begins at: the first piece may begin with elements of the row before it, the last may end
// with some of the row behind it. Those count as -infinity, and are not written. Where input and
// output begin at multiples of 16 and nothing is masked, only pieces that are all of the row's are
// taken so, and its ends one element to a thread.
//
// Logits are compared as they are, and a weight is 2 ^ ((logit - largest) · scale · log2 e):
// the difference first, which is exact where it matters and does not overflow. NaN and
// +infinity make a row of NaN, and so does a row of -infinity: their sum does, since
// infinities differ by NaN and the largest of numbers ignores NaN.
#pragma once

#include "attention.cuh"
#include "vector.cuh"

struct SoftmaxParams {
    const void* in;
    void* out;
    uint64_t* exchange; // of blocks that share a row
    int rows, columns;
    int queries;        // rows of a sequence, the last of which sees all columns; 0: no mask
    int each;           // rows that a group of lanes takes, or a block; blocks that share a row
    int log;
    int stream;         // the output is not to stay in L2
    float scale;        // of logits
    float scale2;       // the same, times log2 e
};

// Weights are those of a part of a row: its largest logit, and the sum of its weights
// relative to that.
struct Weights {
    float top, sum;
};

// baseOf is what logits are relative to: nothing is relative to the largest of none.
__device__ __forceinline__ float baseOf(float top) { return top == lowest() ? 0.0f : top; }

__device__ __forceinline__ float weightOfLogit(float logit, float base, float scale2) {
    return exp2Approximate((logit - base) * scale2);
}

// reciprocal is that of a sum of weights: 0, NaN, or a number that is not small.
__device__ __forceinline__ float reciprocal(float sum) {
    float v;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(sum));
    return v;
}

// rebased is a sum of weights relative to top, relative to base, which is no smaller.
__device__ __forceinline__ float rebased(Weights w, float base, float scale2) {
    return w.sum * weightOfLogit(w.top, base, scale2);
}

template <int LANES>
__device__ __forceinline__ float largestOf(float v) {
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, lanes));
    return v;
}
template <int LANES>
__device__ __forceinline__ float sumOf(float v) {
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) v += __shfl_xor_sync(0xffffffff, v, lanes);
    return v;
}

// mergedOver merges the weights of LANES lanes; all get the result.
template <int LANES>
__device__ __forceinline__ Weights mergedOver(Weights w, float scale2) {
    const float top = largestOf<LANES>(w.top);
    return {top, sumOf<LANES>(rebased(w, baseOf(top), scale2))};
}

// mergedOverWarps merges the weights that each warp of the block has; all threads get the
// result. parts has room for 32, and is not used by others until the next barrier.
__device__ __forceinline__ Weights mergedOverWarps(Weights w, Weights* parts, float scale2) {
    const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) parts[threadIdx.x / 32] = w;
    __syncthreads();
    return mergedOver<32>(lane < warps ? parts[lane] : Weights{lowest(), 0}, scale2);
}

// lowestBits is a word of elements that are all -infinity.
template <class T>
__device__ __forceinline__ uint32_t lowestBits();
template <>
__device__ __forceinline__ uint32_t lowestBits<float>() { return 0xff800000; }
template <>
__device__ __forceinline__ uint32_t lowestBits<__half>() { return 0xfc00fc00; }
#ifdef GA_HAS_BF16
template <>
__device__ __forceinline__ uint32_t lowestBits<__nv_bfloat16>() { return 0xff80ff80; }
#endif

// Pair is the two elements of 16 bits in a word as floats, and back, rounded to
// nearest even.
template <class T>
struct Pair;
template <>
struct Pair<__half> {
    static __device__ __forceinline__ float2 in(uint32_t word) { return __half22float2(*reinterpret_cast<const __half2*>(&word)); }
    static __device__ __forceinline__ uint32_t word(float low, float high) {
        const __half2 pair = __floats2half2_rn(low, high);
        return *reinterpret_cast<const uint32_t*>(&pair);
    }
};
#ifdef GA_HAS_BF16
template <>
struct Pair<__nv_bfloat16> {
    static __device__ __forceinline__ float2 in(uint32_t word) { return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)); }
    static __device__ __forceinline__ uint32_t word(float low, float high) { return packPair<true>(low, high); }
};
#endif

// logitsIn are the elements of a piece, and pieceOf is the piece of outputs.
template <class T>
__device__ __forceinline__ Floats<T> logitsIn(uint4 raw) {
    if constexpr (sizeof(T) == 4) {
        return unpack<T>(raw);
    } else {
        const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
        Floats<T> f;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float2 pair = Pair<T>::in(words[i]);
            f.v[2 * i] = pair.x, f.v[2 * i + 1] = pair.y;
        }
        return f;
    }
}
template <class T>
__device__ __forceinline__ uint4 pieceOf(const Floats<T>& f) {
    if constexpr (sizeof(T) == 4) {
        return pack<T>(f);
    } else {
        return make_uint4(Pair<T>::word(f.v[0], f.v[1]), Pair<T>::word(f.v[2], f.v[3]), Pair<T>::word(f.v[4], f.v[5]), Pair<T>::word(f.v[6], f.v[7]));
    }
}

// seenOf is how many columns a row sees, the first ones.
__device__ __forceinline__ int seenOf(const SoftmaxParams& p, int row) {
    return p.queries == 0 ? p.columns : row % p.queries + p.columns - p.queries + 1;
}

// Form is what is known of all rows: nothing; that each begins and ends at a multiple of 16 bytes, in
// input and output, and sees all columns; or that both begin at one and all columns are seen.
enum class Form { ANY, WHOLE, ENDS };

// Row is where a row lies: in pieces of 16 bytes, of which element i of piece v is column
// v · N + i - head.
template <class T, Form FORM>
struct Row {
    static constexpr bool WHOLE = FORM == Form::WHOLE;
    static constexpr int N = lanesOf<T>;

    const T* in;   // the piece in which the row begins
    T* out;        // where the same piece of the output begins, aligned or not
    int head;      // elements of the first piece that stand before the row
    int columns;   // 0 where there is no row
    int seen;      // columns that are not masked: the first ones
    int pieces;    // that hold columns
    int visible;   // of these, the first ones, that hold columns that are seen
    int whole;     // of these, the first ones, all of whose bytes are in the matrix
    bool together; // pieces of the output are aligned as well

    __device__ __forceinline__ Row(const SoftmaxParams& p, int row) {
        const bool there = row < p.rows;
        const int64_t at = there ? static_cast<int64_t>(row) * p.columns : 0;
        if constexpr (WHOLE) {
            in = static_cast<const T*>(p.in) + at;
            out = static_cast<T*>(p.out) + at;
            head = 0, columns = seen = p.columns, together = true;
            pieces = visible = whole = there ? p.columns / N : 0;
            return;
        }
        const T* const from = static_cast<const T*>(p.in) + at;
        head = static_cast<int>(reinterpret_cast<uint64_t>(from) % 16 / sizeof(T));
        in = from - head;
        out = static_cast<T*>(p.out) + at - head;
        together = reinterpret_cast<uint64_t>(out) % 16 == 0;
        columns = there ? p.columns : 0;
        seen = there ? seenOf(p, row) : 0;
        pieces = there ? (head + columns + N - 1) / N : 0;
        visible = (head + seen + N - 1) / N;
        if (!there) visible = 0;
        // Rows of a few columns share the piece that the end of the matrix cuts.
        const int64_t left = (head + static_cast<int64_t>(p.rows - row) * p.columns) / N;
        whole = left < pieces ? static_cast<int>(left) : pieces;
    }

    // load reads piece v, which is visible; what is not of the row may be anything.
    __device__ __forceinline__ uint4 load(int v) const {
        const T* const from = in + static_cast<int64_t>(v) * N;
        if (WHOLE || v < whole) return loadOnce(from);
        uint4 raw = make_uint4(0, 0, 0, 0); // the end of the matrix, element by element
#pragma unroll 1
        for (int i = head + columns - v * N - 1; i >= 0; i--) {
            const uint32_t bits = reinterpret_cast<const Bits<T>*>(from)[i];
            if constexpr (sizeof(T) == 4) {
                raw = make_uint4(bits, raw.x, raw.y, raw.z);
            } else {
                raw = make_uint4(raw.x << 16 | bits, __funnelshift_l(raw.x, raw.y, 16), __funnelshift_l(raw.y, raw.z, 16),
                                 __funnelshift_l(raw.z, raw.w, 16));
            }
        }
        return raw;
    }

    // mask puts -infinity where piece v holds no column that is seen.
    __device__ __forceinline__ void mask(uint4& raw, int v) const {
        if constexpr (WHOLE) return;
        const int from = v == 0 ? head : 0, to = head + seen - v * N;
        if (from == 0 && to >= N) return;
        uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
        constexpr int PER_WORD = 4 / sizeof(T);
#pragma unroll
        for (int w = 0; w < 4; w++) {
            uint32_t keep = 0;
#pragma unroll
            for (int i = 0; i < PER_WORD; i++) {
                const int element = w * PER_WORD + i;
                if (element >= from && element < to) keep |= (PER_WORD == 1 ? 0xffffffffu : 0xffffu) << i * 16;
            }
            words[w] = (words[w] & keep) | (lowestBits<T>() & ~keep);
        }
        raw = make_uint4(words[0], words[1], words[2], words[3]);
    }

    __device__ __forceinline__ static void storeWhole(T* to, const Floats<T>& f, bool stream) {
        if (stream)
            __stcs(reinterpret_cast<uint4*>(to), pieceOf<T>(f));
        else
            *reinterpret_cast<uint4*>(to) = pieceOf<T>(f);
    }

    // store writes piece v, those of its elements that are columns; of those that are not seen, fill.
    __device__ __forceinline__ void store(int v, Floats<T> f, float fill, bool stream) const {
        T* const at = out + static_cast<int64_t>(v) * N;
        if constexpr (WHOLE) {
            storeWhole(at, f, stream);
            return;
        }
        const int from = v == 0 ? head : 0, to = head + columns - v * N, shown = head + seen - v * N;
        if (shown < N) {
#pragma unroll
            for (int i = 0; i < N; i++) f.v[i] = i < shown ? f.v[i] : fill;
        }
        if (from == 0 && to >= N && together) {
            storeWhole(at, f, stream);
            return;
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i >= from && i < to) at[i] = narrow<T>(f.v[i]);
        }
    }
};

// With ENDS, pieces are those that are all of the row's, and up to N - 1 elements stand before them and as
// many behind: the row's ends.
template <class T>
struct Row<T, Form::ENDS> {
    static constexpr int N = lanesOf<T>;

    const T* in;                // the first piece
    T* out;
    int head;                   // elements before it
    int ends;                   // elements before it and behind the last
    int pieces, visible;

    __device__ __forceinline__ Row(const SoftmaxParams& p, int row) {
        const bool there = row < p.rows;
        const int64_t at = there ? static_cast<int64_t>(row) * p.columns : 0;
        const int columns = there ? p.columns : 0;
        head = min((N - static_cast<int>(at & (N - 1))) & (N - 1), columns);
        pieces = visible = (columns - head) / N;
        ends = columns - pieces * N;
        in = static_cast<const T*>(p.in) + at + head;
        out = static_cast<T*>(p.out) + at + head;
    }

    // endAt is where element i of the ends stands, from the first piece on.
    __device__ __forceinline__ int endAt(int i) const { return i < head ? i - head : pieces * N + i - head; }

    __device__ __forceinline__ uint4 load(int v) const { return loadOnce(in + static_cast<int64_t>(v) * N); }
    __device__ __forceinline__ void mask(uint4&, int) const {}
    __device__ __forceinline__ void store(int v, const Floats<T>& f, float, bool stream) const {
        Row<T, Form::WHOLE>::storeWhole(out + static_cast<int64_t>(v) * N, f, stream);
    }
};

// largestIn is the largest logit of a piece, and of what came before it.
template <class T>
__device__ __forceinline__ float largestIn(float largest, uint4 raw) {
    const Floats<T> x = logitsIn<T>(raw);
#pragma unroll
    for (int i = 0; i < x.N; i++) largest = fmaxf(largest, x.v[i]);
    return largest;
}

// weightsIn is the sum of a piece's weights relative to base.
template <class T>
__device__ __forceinline__ float weightsIn(uint4 raw, float base, float scale2) {
    const Floats<T> x = logitsIn<T>(raw);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < x.N; i++) sum += weightOfLogit(x.v[i], base, scale2);
    return sum;
}

// Outcome is what turns a row's logits into its output.
struct Outcome {
    float top, scale, factor, subtract, fill;
    bool log;

    __device__ __forceinline__ Outcome(const SoftmaxParams& p, Weights w)
        : top(w.top), scale(p.log ? p.scale : p.scale2), factor(0), subtract(0), fill(p.log ? lowest() : 0.0f), log(p.log != 0) {
        if (log)
            subtract = logf(w.sum);
        else
            factor = 1 / w.sum;
    }

    template <class T>
    __device__ __forceinline__ Floats<T> of(uint4 raw) const {
        Floats<T> x = logitsIn<T>(raw);
        if (log) {
#pragma unroll
            for (int i = 0; i < x.N; i++) x.v[i] = (x.v[i] - top) * scale - subtract;
        } else {
#pragma unroll
            for (int i = 0; i < x.N; i++) x.v[i] = exp2Approximate((x.v[i] - top) * scale) * factor;
        }
        return x;
    }

    // ofOne is what becomes of one logit.
    __device__ __forceinline__ float ofOne(float x) const {
        return log ? (x - top) * scale - subtract : exp2Approximate((x - top) * scale) * factor;
    }
};

// SOFTMAX_TYPES applies K to the name and the type of what the architecture has.
#ifdef GA_HAS_BF16
#define SOFTMAX_TYPES(K) K(fp32, float) K(fp16, __half) K(bf16, __nv_bfloat16)
#else
#define SOFTMAX_TYPES(K) K(fp32, float) K(fp16, __half)
#endif
