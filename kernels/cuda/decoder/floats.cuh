// Several floats at once, as vector.cuh has elements of other types.
#pragma once

#include "vector.cuh"

// storeFloats writes the first `count` of N floats.
template <int N>
__device__ __forceinline__ void storeFloats(float* to, const float (&v)[N], int count, bool whole) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const uint4 w = make_uint4(__float_as_uint(v[i]), __float_as_uint(v[i + 1]), __float_as_uint(v[i + 2]), __float_as_uint(v[i + 3]));
        storePiece<float>(to + i, w, count - i, whole);
    }
}

template <int N>
__device__ __forceinline__ void loadFloats(const float* from, float (&v)[N], int count, bool whole) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const uint4 w = loadPiece<float>(from + i, count - i, whole);
        v[i] = __uint_as_float(w.x), v[i + 1] = __uint_as_float(w.y), v[i + 2] = __uint_as_float(w.z), v[i + 3] = __uint_as_float(w.w);
    }
}
