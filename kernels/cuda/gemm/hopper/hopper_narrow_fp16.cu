// arch: 90a
//
// hopper_narrow.cu for fp16 and fp8: two files compile in half the time.
#include "hopper_narrow_kernel.cuh"

GA_SMALL_M_TILES(GA_SMALL_M, fp16, FP16)
GA_SMALL_M_TILES(GA_SMALL_M, fp8, E4M3)
GA_SMALL_M_TILES_BETWEEN(GA_SMALL_M, fp16, FP16)
