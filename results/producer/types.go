package producer

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// typeNames are programs' type names in lower case, in addition to [kernels.ParseDType]'s.
var typeNames = map[string]kernels.DType{
	"bf16_r": kernels.BF16, "f16_r": kernels.FP16, "fp16_r": kernels.FP16, "f32_r": kernels.FP32, "i8_r": kernels.INT8,
	"xf32_r": kernels.TF32,
	"f8_r":   kernels.FP8, "f8_fnuz_r": kernels.FP8, "i32_r": kernels.INT32,
	"r_16bf": kernels.BF16, "r_16f": kernels.FP16, "r_32f": kernels.FP32, "r_8i": kernels.INT8, "r_8f_e4m3": kernels.FP8,
	"r_32i":       kernels.INT32,
	"cuda_r_16bf": kernels.BF16, "cuda_r_16f": kernels.FP16, "cuda_r_32f": kernels.FP32, "cuda_r_8i": kernels.INT8,
	"cuda_r_8f_e4m3": kernels.FP8, "cuda_r_32i": kernels.INT32,
	"c10::bfloat16": kernels.BF16, "c10::half": kernels.FP16, "c10::float8_e4m3fn": kernels.FP8, "signed char": kernels.INT8,
	"char":    kernels.INT8,
	"f8_e4m3": kernels.FP8, "e4m3": kernels.FP8, "s32": kernels.INT32, "int32": kernels.INT32, "f8e4m3": kernels.FP8,
	"__half": kernels.FP16, "__nv_bfloat16": kernels.BF16, "i8": kernels.INT8,
}

// formatNames are programs' names of types whose weights and activations have scales.
var formatNames = map[string]string{
	"fp8_block": "fp8:128x128", "fp8_blockwise": "fp8:128x128", "mxfp8": "mxfp8", "nvfp4": "nvfp4",
}

// scaled sets a product's types and weight format by the program's name of a type with scales; ok is false for other
// names. The product's K must be set.
func scaled(s *kernels.Subject, name string) (ok bool, err error) {
	format, ok := formatNames[strings.ToLower(strings.TrimSpace(name))]
	if !ok {
		return false, nil
	}
	f, err := kernels.ParseWeights(format)
	if err == nil {
		s.DType = f.Activations()
		s.Weights, err = f.For(s.DType, s.K)
	}
	return true, err
}

func dtypeOf(name string) (kernels.DType, error) {
	name = strings.TrimSpace(name)
	if d, ok := typeNames[strings.ToLower(name)]; ok {
		return d, nil
	}
	if d, err := kernels.ParseDType(name); err == nil {
		return d, nil
	}
	return "", fmt.Errorf("type %.40q is not measured", name)
}

// output sets the output type if it differs from the operands' default.
func output(s *kernels.Subject, d kernels.DType) {
	if d != "" && s.DType != "" && d != s.DType.Output() {
		s.Output = d
	}
}
