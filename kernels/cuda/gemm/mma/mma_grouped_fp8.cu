// arch: 89 90a ptx90
//
// mma_grouped_fp8: products of groups of rows in fp8, compute capability 8.9 and up.
#include "mma_grouped.cuh"

GA_MMA_GROUPED_TILES(GA_MMA_GROUPED, fp8)
