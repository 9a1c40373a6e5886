// arch: 90a
//
// Products of up to 8 rows of activations with weights of 8 bits; see quantised_narrow.cuh.
#include "quantised_narrow.cuh"

GA_QUANTISED_NARROW(8, bf16, BF16, 32, 8)
GA_QUANTISED_NARROW(8, bf16, BF16, 64, 8)
GA_QUANTISED_NARROW(8, bf16, BF16, 128, 8)
GA_QUANTISED_NARROW(8, fp16, FP16, 32, 8)
GA_QUANTISED_NARROW(8, fp16, FP16, 64, 8)
GA_QUANTISED_NARROW(8, fp16, FP16, 128, 8)
