package kernels

import (
	"fmt"
	"strings"
)

// DType is the element type of A and B. It determines the accumulator and output types: see
// [DType.Accumulator] and [DType.Output].
type DType string

// The operand types. Names follow the frameworks and are used in run files, tables and on the command line.
const (
	FP32 DType = "fp32" // IEEE binary32
	TF32 DType = "tf32" // fp32 in memory, 10 mantissa bits in the tensor core
	FP16 DType = "fp16" // IEEE binary16
	BF16 DType = "bf16"
	INT8 DType = "int8" // signed, symmetric
	FP8  DType = "fp8"  // e4m3, as on compute capability 8.9 and 9.0

	// INT32 is never an operand: it is the accumulator and output type of [INT8].
	INT32 DType = "int32"

	// FP4 has two bits of exponent and one of mantissa. No kernel computes it: results in it are imported.
	FP4 DType = "fp4"
	// E8M0 is a power of two. It is never an operand, only the type of scales.
	E8M0 DType = "e8m0"
)

// DTypes lists the operand types of kernels in table order.
func DTypes() []DType { return []DType{FP32, TF32, FP16, BF16, FP8, INT8} }

// ParseDType reads an operand type, including frameworks' names ("float16", "torch.bfloat16"). The error
// lists the valid names.
func ParseDType(s string) (DType, error) {
	name := strings.ToLower(strings.TrimSpace(s))
	name = strings.TrimPrefix(name, "torch.")
	switch name {
	case "fp32", "float32", "float", "f32":
		return FP32, nil
	case "tf32":
		return TF32, nil
	case "fp16", "float16", "half", "f16":
		return FP16, nil
	case "bf16", "bfloat16":
		return BF16, nil
	case "int8", "i8", "s8":
		return INT8, nil
	case "fp8", "e4m3", "fp8_e4m3", "float8_e4m3fn":
		return FP8, nil
	case "fp4", "float4_e2m1fn":
		return FP4, nil
	}
	return "", fmt.Errorf("unknown dtype %q: expected one of fp32, tf32, fp16, bf16, fp8, int8", s)
}

// Bits returns the size of one element, 0 for an unknown type.
func (d DType) Bits() int {
	if d == FP4 {
		return 4
	}
	return 8 * d.Size()
}

// Size returns the bytes of one element, 0 for an unknown type and for elements smaller than a byte.
func (d DType) Size() int {
	switch d {
	case FP32, TF32, INT32:
		return 4
	case FP16, BF16:
		return 2
	case INT8, FP8, E8M0:
		return 1
	}
	return 0
}

// Accumulator returns the type of the sums: int32 for int8, fp32 for all others.
func (d DType) Accumulator() DType {
	if d == INT8 {
		return INT32
	}
	return FP32
}

// Output returns the type of C: the operand type for fp32, fp16 and bf16, fp32 for tf32, bf16 for fp8 and fp4, and
// int32 for int8.
func (d DType) Output() DType {
	switch d {
	case INT8:
		return INT32
	case TF32:
		return FP32
	case FP8, FP4:
		return BF16
	}
	return d
}

// UnitRoundoff returns u = 2^-p for p significant bits: the largest relative error of rounding to nearest. It
// is 0 for integers.
func (d DType) UnitRoundoff() float64 {
	switch d {
	case FP32:
		return 1.0 / (1 << 24)
	case TF32, FP16:
		return 1.0 / (1 << 11)
	case BF16:
		return 1.0 / (1 << 8)
	case FP8:
		return 1.0 / (1 << 4)
	case FP4:
		return 1.0 / (1 << 2)
	}
	return 0
}

func (d DType) String() string { return string(d) }
