// Sixteen bytes of elements as floats and back, for kernels that move rows; and what
// overlapped launches need, on architectures that have none too.
#pragma once

#include "numeric.cuh"
#include "stream.cuh"

// lanesOf<T> is how many elements lie in 16 bytes.
template <class T>
constexpr int lanesOf = 16 / static_cast<int>(sizeof(T));

// Floats are the elements of 16 bytes, widened.
template <class T>
struct Floats {
    static constexpr int N = lanesOf<T>;
    float v[N];
};

template <class T>
__device__ __forceinline__ T fromBits(Bits<T> bits) {
    return *reinterpret_cast<const T*>(&bits);
}
template <class T>
__device__ __forceinline__ Bits<T> toBits(T v) {
    return *reinterpret_cast<const Bits<T>*>(&v);
}

template <class T>
__device__ __forceinline__ Floats<T> unpack(uint4 from) {
    const uint32_t words[4] = {from.x, from.y, from.z, from.w};
    constexpr int PER_WORD = 4 / sizeof(T);
    Floats<T> f;
#pragma unroll
    for (int i = 0; i < lanesOf<T>; i++) {
        f.v[i] = widen(fromBits<T>(static_cast<Bits<T>>(words[i / PER_WORD] >> i % PER_WORD * (32 / PER_WORD % 32))));
    }
    return f;
}

// pack rounds to nearest even.
template <class T>
__device__ __forceinline__ uint4 pack(const Floats<T>& f) {
    constexpr int PER_WORD = 4 / sizeof(T);
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < lanesOf<T>; i++) {
        words[i / PER_WORD] |= static_cast<uint32_t>(toBits(narrow<T>(f.v[i]))) << i % PER_WORD * (32 / PER_WORD % 32);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// loadPiece reads up to lanesOf<T> elements: 16 bytes at once where `whole` says that
// they are there and aligned, else the first `count`, and zeros.
template <class T>
__device__ __forceinline__ uint4 loadPiece(const T* from, int count, bool whole) {
    if (whole) return *reinterpret_cast<const uint4*>(from);
    constexpr int PER_WORD = 4 / sizeof(T);
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < lanesOf<T>; i++) {
        if (i < count) {
            words[i / PER_WORD] |= static_cast<uint32_t>(reinterpret_cast<const Bits<T>*>(from)[i]) << i % PER_WORD * (32 / PER_WORD % 32);
        }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

template <class T>
__device__ __forceinline__ void storePiece(T* to, uint4 v, int count, bool whole) {
    if (whole) {
        *reinterpret_cast<uint4*>(to) = v;
        return;
    }
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
    constexpr int PER_WORD = 4 / sizeof(T);
#pragma unroll
    for (int i = 0; i < lanesOf<T>; i++) {
        if (i < count) {
            reinterpret_cast<Bits<T>*>(to)[i] = static_cast<Bits<T>>(words[i / PER_WORD] >> i % PER_WORD * (32 / PER_WORD % 32));
        }
    }
}
