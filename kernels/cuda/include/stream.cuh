// What kernels share that are as fast as memory: loads of what is read once, and launches
// that overlap.
#pragma once

// loadOnce reads 16 bytes that this kernel reads once.
__device__ __forceinline__ uint4 loadOnce(const void *from) {
    uint4 v;
#if __CUDA_ARCH__ >= 800
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
#else
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
#endif
    return v;
}

// dependentsMayStart lets the next kernel of the stream begin where it was launched to
// overlap.
__device__ __forceinline__ void dependentsMayStart() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// waitForPredecessor returns once the kernel before has ended and its writes are visible, at
// once where nothing overlaps. Where every kernel calls it before its first write, all
// kernels before that one have ended too.
__device__ __forceinline__ void waitForPredecessor() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
