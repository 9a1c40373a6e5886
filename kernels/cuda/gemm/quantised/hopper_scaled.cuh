// What a launch of hopper_scaled.cu and hopper_scaled_wide.cu is told.
#pragma once

#include "hopper_sums.cuh"
#include "hopper_walk.cuh"
#include "wgmma.cuh"

struct ScaledParams : HopperParams {
    TensorMap tokenScales;     // groups of K rows of M fp32, in boxes of one row of a tile's tokens; nothing for scales of columns
    const float *scalesA;      // those of whole rows
    const float *scalesB;      // by block of columns, then by group of K
    int groups;                // of K
    int stages;
};

namespace scaled {

constexpr int BLOCK = 128; // columns and K of a scale of weights
constexpr int THREADS = GROUP * (CONSUMERS + 1);

// Which weights share a scale.
enum class By { BLOCK, COLUMN_GROUP, COLUMN };

__device__ __forceinline__ float loadShared4(uint32_t from) {
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(from) : "memory");
    return v;
}

__device__ __forceinline__ void storeShared4(uint32_t to, float v) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory");
}

__device__ __forceinline__ float2 loadShared8(uint32_t from) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
    return v;
}

// Of wgmma's sums a thread has rows r and r + 8 and, for each eight columns, two side by side.
__device__ __forceinline__ int threadRow() { return threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4; }
__device__ __forceinline__ int threadColumn() { return threadIdx.x % 4 * 2; }

} // namespace scaled
