// arch: 90a
//
// hopper.cu with an epilogue: C = activation(A·Bᵀ + bias). One kernel has all epilogues, which are parameters of the launch.
//
// A consumer holds the sums of its part of a tile in registers when it begins to store them. It adds the bias, two values for 64 rows
// where rows of the sums are columns of C, applies the activation, and goes on as hopper.cu does. Where consumers take turns,
// the other one multiplies meanwhile. Otherwise the tensor cores wait for what the stagger does not hide: two transcendental
// instructions for each element, or 4096 cycles for a tile of 128×256, which multiplies for 65 536 at a K of 4096.
#include "hopper_epilogue.cuh"
#include "hopper_epilogue_tiles.cuh"

GA_HOPPER_EPILOGUE_TILES(GA_HOPPER_EPILOGUE_T, bf16, BF16, BfloatOut)
GA_HOPPER_EPILOGUE_TILES_COARSE(GA_HOPPER_EPILOGUE, bf16, BF16, BfloatOut)
GA_HOPPER_EPILOGUE_TILES_TURNS(GA_HOPPER_EPILOGUE_TURNS_T, bf16, BF16, BfloatOut)
GA_HOPPER_EPILOGUE_TILES(GA_HOPPER_EPILOGUE_T, fp16, FP16, HalfOut)
GA_HOPPER_EPILOGUE_TILES_COARSE(GA_HOPPER_EPILOGUE, fp16, FP16, HalfOut)
GA_HOPPER_EPILOGUE_TILES_TURNS(GA_HOPPER_EPILOGUE_TURNS_T, fp16, FP16, HalfOut)
