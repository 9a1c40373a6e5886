// What stands around a product for one row in a decoder: RMSNorm before it; adding to the
// residual stream, or silu(gate)·up, behind it. fused_product.cu and fused_ring.cu put
// them around their loops.
//
// A decoder with experts chooses among weights on the device. experts.cu leaves what it chose,
// addresses among it, and products of one row read that: of the units of all chosen
// experts side by side (Experts::UNITS), or of their outputs added up by their shares
// (Experts::OUTPUTS).
//
// Overlapped launches: a kernel may start while kernels before it still run, also such as
// lie further back than its predecessor. One rule makes every order of them right: before
// griddepcontrol.wait a kernel touches nothing but weights, of products and norms, which
// no kernel writes; and each of its blocks waits. So a kernel that has ended has seen its
// predecessor end, which had seen its own: whoever has waited has everything before it
// behind itself, all that was written to read, and nobody left who reads what it writes.
//
// Weights of experts are no exception, but their addresses are written by a kernel. The
// choice lets its dependents start only when it has waited itself, and so do the units: so
// the units may read x, which is ready then, before they wait, and the outputs, which start
// when the choice has ended, the choice.
#pragma once

#include "chosen.cuh"
#include "gemv.cuh"

namespace gemv {

enum class Experts { NONE, UNITS, OUTPUTS };

struct FusedParams {
    const void *b;
    const void *a;      // the row, unless there is a norm
    float *x;           // what is normalized, or added to
    const void *weight; // of the norm, null for none
    void *c;            // null where x is added to
    int64_t ldb;        // in elements, rows aligned to 16 bytes, zeros behind k
    float epsilon;
    int n, k;
    int half;    // the up rows of a gated unit begin here, 0 for none
    int aligned; // a to 16 bytes; with a norm: x to 16, weight to four elements, k to four
    // Of fused_ring.cu: stages, and how many of its fetches are left when a block lets
    // dependents start.
    int stages, early;
};

// ExpertParams: b is not used. n and k are one expert's. c has the units of one expert after
// those of the other, and so has a.
struct ExpertParams : FusedParams {
    const Chosen *chosen;
    int count;
};

// Params are those of a kernel.
template <Experts E>
struct ParamsOf {
    using Type = ExpertParams;
};
template <>
struct ParamsOf<Experts::NONE> {
    using Type = FusedParams;
};
template <Experts E>
using Params = typename ParamsOf<E>::Type;

// weightsOf is where the weights of the i-th chosen expert lie, shareOf its share.
template <Experts E>
__device__ __forceinline__ const char *weightsOf(const Params<E> &p, int i) {
    if constexpr (E == Experts::NONE) {
        return static_cast<const char *>(p.b);
    } else {
        const Chosen *of = p.chosen + i;
        return reinterpret_cast<const char *>(
            __ldcg(reinterpret_cast<const unsigned long long *>(E == Experts::UNITS ? &of->units : &of->outputs)));
    }
}
template <Experts E>
__device__ __forceinline__ float shareOf(const Params<E> &p, int i) {
    if constexpr (E == Experts::OUTPUTS) return __ldcg(&p.chosen[i].share);
    return 1;
}

// sideBySide is how many experts' rows a product has, addedUp how many it adds up.
template <Experts E>
__device__ __forceinline__ int sideBySide(const Params<E> &p) {
    if constexpr (E == Experts::UNITS) return p.count;
    return 1;
}
template <Experts E>
__device__ __forceinline__ int addedUp(const Params<E> &p) {
    if constexpr (E == Experts::OUTPUTS) return p.count;
    return 1;
}

// output takes the sum of row i, of a gated unit the sum of its gate, with that of its up;
// x is what was in X before, where it is added to.
template <Type T>
__device__ __forceinline__ void output(const FusedParams &p, int i, float sum, float up, float x) {
    if (p.half) sum = __fdividef(sum, 1 + expf(-sum)) * up;
    if (p.c) {
        store<T>(p.c, i, sum);
    } else {
        p.x[i] = x + sum;
    }
}

// Four elements of type T, and one.
template <Type T>
struct Element {
    using Four = uint2;
    using One = uint16_t;
};
template <>
struct Element<Type::FP32> {
    using Four = uint4;
    using One = uint32_t;
};

// toFloat is an element's value from its bits; toBits rounds to nearest.
template <Type T>
__device__ __forceinline__ float toFloat(uint32_t bits) {
    float v;
    if constexpr (T == Type::FP16) {
        asm("{\n.reg .b16 h;\ncvt.u16.u32 h, %1;\ncvt.f32.f16 %0, h;\n}" : "=f"(v) : "r"(bits));
    } else if constexpr (T == Type::BF16) {
        v = __uint_as_float(bits << 16);
    } else {
        v = __uint_as_float(bits);
    }
    return v;
}
template <Type T>
__device__ __forceinline__ uint32_t toBits(float v) {
    uint32_t bits = 0;
    if constexpr (T == Type::FP16) {
        asm("{\n.reg .b16 h;\ncvt.rn.f16.f32 h, %1;\ncvt.u32.u16 %0, h;\n}" : "=r"(bits) : "f"(v));
    } else if constexpr (T == Type::BF16) {
#if __CUDA_ARCH__ >= 800
        asm("{\n.reg .b16 h;\ncvt.rn.bf16.f32 h, %1;\ncvt.u32.u16 %0, h;\n}" : "=r"(bits) : "f"(v));
#endif
    } else {
        bits = __float_as_uint(v);
    }
    return bits;
}

// Norm is RMSNorm of x into shared memory, by `threads` threads that `sync` brings
// together. Each has four adjacent elements of every 4·threads; of the first KEPT such
// fours it keeps the weights, which it fetches ahead, and the values: beyond them, both
// are read from the L2 when they are needed.
template <Type T, int KEPT>
struct Norm {
    using Four = typename Element<T>::Four;
    using One = typename Element<T>::One;
    Four kept[KEPT];

    __device__ __forceinline__ Four weights(const FusedParams &p, int at) const {
        return __ldg(reinterpret_cast<const Four *>(static_cast<const One *>(p.weight) + at));
    }

    // fetch may come before the wait.
    __device__ __forceinline__ void fetch(const FusedParams &p, int thread, int threads) {
#pragma unroll
        for (int j = 0; j < KEPT; j++) {
            const int at = 4 * (thread + j * threads);
            kept[j] = p.aligned && at < p.k ? weights(p, at) : Four{};
        }
    }

    __device__ __forceinline__ static void put(One *to, int at, float4 v, Four weight, float scale) {
        if constexpr (T == Type::FP32) {
            *reinterpret_cast<float4 *>(to + at) =
                make_float4(v.x * scale * __uint_as_float(weight.x), v.y * scale * __uint_as_float(weight.y),
                            v.z * scale * __uint_as_float(weight.z), v.w * scale * __uint_as_float(weight.w));
        } else {
            *reinterpret_cast<uint2 *>(to + at) = make_uint2(
                toBits<T>(v.x * scale * toFloat<T>(weight.x & 0xffff)) | toBits<T>(v.y * scale * toFloat<T>(weight.x >> 16)) << 16,
                toBits<T>(v.z * scale * toFloat<T>(weight.y & 0xffff)) | toBits<T>(v.w * scale * toFloat<T>(weight.y >> 16)) << 16);
        }
    }

    // apply leaves the row in `to`, zeros up to ldb behind it. scratch holds a float a warp.
    template <class Sync>
    __device__ __forceinline__ void apply(const FusedParams &p, void *row, float *scratch, int thread, int threads,
                                          const Sync &sync) const {
        One *to = static_cast<One *>(row);
        const float4 *fours = reinterpret_cast<const float4 *>(p.x);
        float4 v[KEPT];
        float squares = 0;
        auto square = [&](float4 f) { squares += f.x * f.x + f.y * f.y + (f.z * f.z + f.w * f.w); };
        if (p.aligned) {
#pragma unroll
            for (int j = 0; j < KEPT; j++) {
                const int at = 4 * (thread + j * threads);
                v[j] = at < p.k ? __ldcg(fours + at / 4) : make_float4(0, 0, 0, 0);
            }
#pragma unroll
            for (int j = 0; j < KEPT; j++) square(v[j]);
#pragma unroll 1
            for (int at = 4 * (thread + KEPT * threads); at < p.k; at += 4 * threads) square(__ldcg(fours + at / 4));
        } else {
#pragma unroll 1
            for (int at = thread; at < p.k; at += threads) {
                const float f = __ldcg(p.x + at);
                squares += f * f;
            }
        }
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) squares += __shfl_xor_sync(0xffffffff, squares, lanes);
        if (thread % 32 == 0) scratch[thread / 32] = squares;
        sync();
        float sum = 0;
        for (int i = 0; i < threads / 32; i++) sum += scratch[i];
        const float scale = rsqrtf(sum / static_cast<float>(p.k) + p.epsilon);
        if (p.aligned) {
#pragma unroll
            for (int j = 0; j < KEPT; j++) {
                const int at = 4 * (thread + j * threads);
                if (at < p.k) put(to, at, v[j], kept[j], scale);
            }
#pragma unroll 1
            for (int at = 4 * (thread + KEPT * threads); at < p.k; at += 4 * threads) {
                put(to, at, __ldcg(fours + at / 4), weights(p, at), scale);
            }
        } else {
#pragma unroll 1
            for (int at = thread; at < p.k; at += threads) {
                to[at] = static_cast<One>(
                    toBits<T>(__ldcg(p.x + at) * scale * toFloat<T>(static_cast<const One *>(p.weight)[at])));
            }
        }
        for (int at = p.k + thread; at < p.ldb; at += threads) to[at] = 0;
        sync();
    }
};

} // namespace gemv
