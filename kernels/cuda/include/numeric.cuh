// Element types of products and what follows from them: accumulator, output,
// conversions, and loads of several elements at once.
//
// A type exists only where the architecture has it: bf16 from 8.0 on, fp8 from 8.9 on.
// Nothing here widens or narrows in software.
#pragma once

#include <cuda_fp16.h>
#if __CUDA_ARCH__ >= 800
#include <cuda_bf16.h>
#endif
#if __CUDA_ARCH__ >= 890
#include <cuda_fp8.h>
#endif
#include "integers.cuh"

#if __CUDA_ARCH__ >= 800
#define GA_HAS_BF16 1
#endif
#if __CUDA_ARCH__ >= 890
#define GA_HAS_FP8 1
#endif

// Numeric<T> names the type of sums and of C for operands of type T.
template <class T>
struct Numeric;

template <>
struct Numeric<float> {
    using Acc = float;
    using Out = float;
};

template <>
struct Numeric<__half> {
    using Acc = float;
    using Out = __half;
};

template <>
struct Numeric<int8_t> {
    using Acc = int32_t;
    using Out = int32_t;
};

__device__ __forceinline__ float widen(float v) { return v; }
__device__ __forceinline__ float widen(__half v) { return __half2float(v); }
__device__ __forceinline__ int32_t widen(int8_t v) { return v; }

// narrow<Out> rounds an accumulator to the type of C, to nearest even.
template <class Out, class Acc>
struct Narrow;

template <class T>
struct Narrow<T, T> {
    static __device__ __forceinline__ T from(T v) { return v; }
};

template <>
struct Narrow<__half, float> {
    static __device__ __forceinline__ __half from(float v) { return __float2half_rn(v); }
};

#ifdef GA_HAS_BF16
template <>
struct Numeric<__nv_bfloat16> {
    using Acc = float;
    using Out = __nv_bfloat16;
};

template <>
struct Narrow<__nv_bfloat16, float> {
    static __device__ __forceinline__ __nv_bfloat16 from(float v) { return __float2bfloat16_rn(v); }
};

__device__ __forceinline__ float widen(__nv_bfloat16 v) { return __bfloat162float(v); }
#endif

#ifdef GA_HAS_FP8
template <>
struct Numeric<__nv_fp8_e4m3> {
    using Acc = float;
    using Out = __nv_bfloat16;
};

__device__ __forceinline__ float widen(__nv_fp8_e4m3 v) { return static_cast<float>(v); }
#endif

template <class Out, class Acc>
__device__ __forceinline__ Out narrow(Acc v) {
    return Narrow<Out, Acc>::from(v);
}

// zeroOf is a zero of any element type: all of them write it as zero bits.
template <class T>
__device__ __forceinline__ T zeroOf() {
    return T{};
}

// VectorOf<BYTES>::type is what one load or store of BYTES bytes moves.
template <int BYTES>
struct VectorOf;
template <>
struct VectorOf<1> {
    using type = uint8_t;
};
template <>
struct VectorOf<2> {
    using type = uint16_t;
};
template <>
struct VectorOf<4> {
    using type = uint32_t;
};
template <>
struct VectorOf<8> {
    using type = uint2;
};
template <>
struct VectorOf<16> {
    using type = uint4;
};

// Bits<T> is an unsigned integer of T's size.
template <class T>
using Bits = typename VectorOf<sizeof(T)>::type;

// Pack is N elements that are loaded together, four bytes or more. They stay words until
// they are used: taken apart when they arrive, they would be waited for then and there.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    static constexpr int PER_WORD = 4 / sizeof(T);
    uint32_t words[N / PER_WORD];

    __device__ __forceinline__ static Pack zero() { return Pack{}; }

    // load reads N elements, at a multiple of their size, through the read-only path.
    __device__ __forceinline__ static Pack load(const T* from) {
        using Vector = typename VectorOf<sizeof(T) * N>::type;
        Pack p;
        *reinterpret_cast<Vector*>(p.words) = __ldg(reinterpret_cast<const Vector*>(from));
        return p;
    }

    // store writes N elements to a multiple of their size in shared memory.
    __device__ __forceinline__ void store(void* to) const {
        using Vector = typename VectorOf<sizeof(T) * N>::type;
        *static_cast<Vector*>(to) = *reinterpret_cast<const Vector*>(words);
    }

    // loadFirst reads the first n elements one by one, from any address, and leaves
    // zeros for the others.
    __device__ __forceinline__ static Pack loadFirst(const T* from, int n) {
        Pack p = zero();
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i < n) {
                const uint32_t bits = __ldg(reinterpret_cast<const Bits<T>*>(from) + i);
                p.words[i / PER_WORD] |= bits << i % PER_WORD * (8 * sizeof(T));
            }
        }
        return p;
    }

    __device__ __forceinline__ T at(int i) const {
        const Bits<T> bits = static_cast<Bits<T>>(words[i / PER_WORD] >> i % PER_WORD * (8 * sizeof(T)));
        return *reinterpret_cast<const T*>(&bits);
    }
};
