// Instructions of compute capability 8.0 and up that CUDA C++ has no names for: copies to
// shared memory that do not pass the registers, matrices for the tensor cores, and their
// product in 16-bit types. Addresses of shared memory are 32-bit offsets in the shared
// window, as the instructions want them.
#pragma once

#include "mma_sync.cuh"

__device__ __forceinline__ unsigned sharedAddress(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// copy16 copies 16 bytes to shared memory, or fills them with zeros and reads nothing.
__device__ __forceinline__ void copy16(unsigned to, const char *from, bool exists) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(exists ? 16 : 0) : "memory");
}
__device__ __forceinline__ void copyCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void copyWait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// loadMatrices reads four 8×8 matrices of 16-bit elements: lane l gives the address of row
// l%8 of matrix l/8.
__device__ __forceinline__ void loadMatrices(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// multiply adds a 16×8 product, 16 deep, of bf16 or fp16.
template <bool BF16>
__device__ __forceinline__ void multiply(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    if constexpr (BF16)
        mmaBF16(d, a0, a1, a2, a3, b0, b1);
    else
        mmaFP16(d, a0, a1, a2, a3, b0, b1);
}
