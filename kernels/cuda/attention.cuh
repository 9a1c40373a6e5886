// What all kernels of attention share: where the rows stand, and which keys each sees.
#pragma once

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
