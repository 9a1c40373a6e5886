// arch: 80 90a ptx90
//
// mma_grouped: products of groups of rows in fp16, bf16 and int8, compute capability 8.0 and up.
#include "mma_grouped.cuh"

GA_MMA_GROUPED_TILES(GA_MMA_GROUPED, fp16)
GA_MMA_GROUPED_TILES(GA_MMA_GROUPED, bf16)
GA_MMA_GROUPED_TILES(GA_MMA_GROUPED, int8)
