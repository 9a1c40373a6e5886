package report

import (
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

// choosy takes fp8 in multiples of 16 alone, as cuBLASLt does, int8 for few rows only,
// and no fp32.
type choosy struct{ kernels.Gemm }

func (choosy) Supports(p kernels.Problem) error {
	switch {
	case p.DType == kernels.FP8 && p.Shape.K%16 == 0,
		p.DType == kernels.INT8 && p.Shape.M <= 8:
		return nil
	case p.DType == kernels.FP32 && p.Shape.M == 1:
		return &kernels.Unsupported{Kernel: "choosy", DType: p.DType, Reason: "no fp32"}
	}
	return &kernels.Unsupported{Kernel: "choosy", DType: p.DType, Reason: "not this shape"}
}

type choosyDevice struct{ kernels.Device }

func (d choosyDevice) Gemms() []kernels.Gemm { return []kernels.Gemm{choosy{d.Device.Gemms()[0]}} }

// A data type that a kernel takes for some products is one of its types.
func TestDescribeAsksForMoreThanTheSmallest(t *testing.T) {
	k := Describe(choosyDevice{kerneltest.New(kerneltest.Config{Gemms: []kerneltest.GemmConfig{{Name: "choosy"}}})}, nil).Kernels[0]
	slices.Sort(k.DTypes)
	if want := []kernels.DType{kernels.FP8, kernels.INT8}; !slices.Equal(k.DTypes, want) {
		t.Errorf("types %v, expected %v", k.DTypes, want)
	}
	if got := k.Unsupported[kernels.FP32]; got != "no fp32" {
		t.Errorf("fp32: %q", got)
	}
}
