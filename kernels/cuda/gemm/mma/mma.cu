// arch: 75 80 86 89 90a ptx90 100 120
//
// mma: C = A·B on tensor cores through mma.sync, compute capability 7.5 and up.
//
// Both operands are contiguous along K (A is row-major M×K, weights are packed as
// N×K), and in bytes every mma.sync used here has one shape: 16 rows of A and 8 of
// B, 32 bytes deep. So one template over bytes serves fp16, bf16 (k16), tf32 (k8),
// int8 and fp8 (k32). On 7.5, which has fp16 and int8, two or four smaller ones make it up.
//
// Tiles    warps (each)      a row of a stage   a stage   for
//   128x256  8, 2×4 (64×64)    64, 128 on 9.0     24, 48    large M
//   128x128  4, 2×2 (64×64)    128 bytes          32 KB     large M, fewer tiles
//   64x128   4, 2×2 (32×64)    128 bytes          24 KB     M near 64
//   64x64    4, 2×2 (32×32)    128 bytes          16 KB     M near 64, small N
//   32x128   4, 1×4 (32×32)    128 bytes          20 KB     M near 32
//   16x128   4, 1×4 (16×32)    128 bytes          18 KB     M to 16
// On 7.5 a row has 64 bytes but in the last.
// The number of stages follows from an SM's shared memory; the list is at the end.
//
// Roles: every thread copies with cp.async and every warp multiplies. A stage is
// loaded stages-1 steps ahead; one barrier a step separates the last read of a
// stage from its next write. On 7.5, which has no cp.async, what the next step needs is on its
// way into registers while one is multiplied, and then stored in the other of two stages.
// Fragments are double-buffered in registers. A step's
// copies are issued together, after the first fragments: on 9.0, copies spread among
// ldmatrix, which evens out the demand on shared memory, took a sixth longer.
//
// Shared memory, a stage: BM rows of A, then BN rows of B, each row 64 or 128 bytes
// of K in chunks of 16. Chunk c of row r lies at c ^ (r & 7) for 128-byte rows, and at
// c ^ (r/2 & 3) for 64-byte rows, so that the eight rows of a ldmatrix phase, and the
// eight chunks of a cp.async phase, fall into eight different groups of four banks.
//
// Arithmetic intensity, a 128×256 tile of 16-bit operands: 2·128·256 / (2·(128+256))
// = 85 FLOP per byte of L2; a warp of 64×64: 32 mma on 8 ldmatrix.x4, 32 FLOP per
// byte of shared memory.
//
// Split-K: the blocks of one output tile each sum a range of K, leave the sum in
// scratch, and the last to arrive adds them up in the order of the ranges: the order
// of additions does not depend on the order of arrival.
//
// tf32 operands are used as they lie in memory: the tensor core ignores the lowest
// 13 bits.

#include "mma_kernel.cuh"
#include "mma_tiles.cuh"

// The symbol ends in the tile and its stages; blocks is how many fit an SM.
#define GA_MMA_KERNEL(TYPE, BM, BN, WARPSM, WARPSN, ROW, STAGES, BLOCKS)                           \
    extern "C" __global__ void __launch_bounds__(WARPSM * WARPSN * 32, BLOCKS)                    \
        ga_mma_##TYPE##_##BM##x##BN##_s##STAGES(const __grid_constant__ ga_mma::Params p) {       \
        extern __shared__ __align__(128) char shared[];                                           \
        ga_mma::Kernel<ga_mma::Type::TYPE, BM, BN, WARPSM, WARPSN, ROW, STAGES> kernel;           \
        kernel.run(p, shared);                                                                    \
    }

// What the shared memory of an SM holds. PTX is for GPUs to come.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GA_MMA_TILES(TYPE) GA_MMA_TILES_90(GA_MMA_KERNEL, TYPE)
#elif __CUDA_ARCH__ == 750
#define GA_MMA_TILES(TYPE) GA_MMA_TILES_75(GA_MMA_KERNEL, TYPE)
#elif __CUDA_ARCH__ == 800
#define GA_MMA_TILES(TYPE) GA_MMA_TILES_80(GA_MMA_KERNEL, TYPE)
#else
#define GA_MMA_TILES(TYPE) GA_MMA_TILES_SMALL(GA_MMA_KERNEL, TYPE)
#endif

GA_MMA_TILES(fp16)
#if __CUDA_ARCH__ >= 800
GA_MMA_TILES(bf16)
GA_MMA_TILES(tf32)
#endif
GA_MMA_TILES(int8)
#if __CUDA_ARCH__ >= 890
GA_MMA_TILES(fp8)
#endif
