// arch: 90a
//
// hopper_narrow.cu with an epilogue: C = activation(A·Bᵀ + bias). One kernel has all epilogues, which are parameters of the launch.
//
// A consumer thread adds two values of the bias to its sums, which are of two columns of C, and applies the activation before it stores
// them. Where memory decides, the arithmetic is free but for that of the last tile.
#include "hopper_narrow_epilogue.cuh"
#include "hopper_narrow_epilogue_tiles.cuh"

GA_SMALL_M_EPILOGUE_TILES(GA_SMALL_M_EPILOGUE, bf16, BF16)
GA_SMALL_M_EPILOGUE_TILES(GA_SMALL_M_EPILOGUE, fp16, FP16)
