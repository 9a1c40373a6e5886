// What kernels of attention share: where the rows stand, which keys each sees, and the
// arithmetic of a softmax that runs.
#pragma once

#include "pair.cuh"

// Seen is the range of positions [begin, end) that a row sees.
struct Seen {
    int begin, end;
};

// firstPosition reads the position of the first row. Whatever is in memory, it is one at
// which the rows end within length, which bounds the work and what workspaces hold.
__device__ __forceinline__ int firstPosition(const int *position, int rows, int length) {
    return max(0, min(*position, length - rows));
}

// seenFrom is what the row at a position sees; window is 0 for none.
__device__ __forceinline__ Seen seenFrom(int position, int window) {
    return {window > 0 ? max(0, position - window + 1) : 0, position + 1};
}

// lowest is the maximum of no scores.
__device__ __forceinline__ float lowest() { return __int_as_float(0xff800000); } // -infinity

__device__ __forceinline__ float exp2Approximate(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
