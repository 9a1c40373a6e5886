// arch: 80 ptx90
//
// Products with weights of 8 bits on GPUs without wgmma; see quantised_mma.cuh.
// The code for 8.0 is that of 8.6 and 8.9 too.
#include "quantised_mma.cuh"
#include "quantised_tiles.cuh"

GA_QUANTISED_MMA_TILES(GA_QUANTISED_MMA, 8, bf16, BF16, 32)
GA_QUANTISED_MMA_TILES(GA_QUANTISED_MMA, 8, bf16, BF16, 64)
GA_QUANTISED_MMA_TILES(GA_QUANTISED_MMA, 8, bf16, BF16, 128)
GA_QUANTISED_MMA_TILES(GA_QUANTISED_MMA, 8, fp16, FP16, 32)
GA_QUANTISED_MMA_TILES(GA_QUANTISED_MMA, 8, fp16, FP16, 64)
GA_QUANTISED_MMA_TILES(GA_QUANTISED_MMA, 8, fp16, FP16, 128)
