package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// choosy takes fp8 only in multiples of 16, as cuBLASLt does, int8 only for few rows, and no fp32.
type choosy struct{ kernels.Kernel }

func (choosy) Supports(p kernels.Task) error {
	switch {
	case p.DType == kernels.FP8 && p.K%16 == 0,
		p.DType == kernels.INT8 && p.M <= 8:
		return nil
	case p.DType == kernels.FP32 && p.M == 1:
		return &kernels.Unsupported{Kernel: "choosy", DType: p.DType, Reason: "no fp32"}
	}
	return &kernels.Unsupported{Kernel: "choosy", DType: p.DType, Reason: "not this shape"}
}

type choosyDevice struct{ kernels.Device }

func (d choosyDevice) Kernels(o kernels.Operation) []kernels.Kernel {
	if o != kernels.GEMM {
		return nil
	}
	return []kernels.Kernel{choosy{d.Device.Kernels(o)[0]}}
}

func TestDescribeAsksForMoreThanTheSmallest(t *testing.T) {
	k := Describe(choosyDevice{simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{{Name: "choosy"}}})}, nil).Kernels[0]
	slices.Sort(k.DTypes)
	if want := []kernels.DType{kernels.FP8, kernels.INT8}; !slices.Equal(k.DTypes, want) {
		t.Errorf("types %v, expected %v", k.DTypes, want)
	}
	if got := k.Unsupported[kernels.FP32]; got != "no fp32" {
		t.Errorf("fp32: %q", got)
	}
}

func TestDescribeQuantized(t *testing.T) {
	cost := simulated.Linear(1e9, 0)
	d := simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{
		{Name: "both", Cost: cost, Quantized: cost, DTypes: []kernels.DType{kernels.FP32, kernels.BF16}},
		{Name: "plain", Cost: cost, DTypes: []kernels.DType{kernels.BF16}},
	}})
	var got []string
	for _, k := range Describe(d, nil).Kernels {
		if k.Operations[0] == kernels.GEMM {
			got = append(got, k.Name+": "+k.typesText())
		}
	}
	if want := []string{"both: fp32 bf16, weights int4 int8", "plain: bf16"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, k := range Describe(d, nil).Kernels {
		// No kernel has quantized weights for fp32; the plain kernel must not list them.
		if k.Name == "plain" && k.Operations[0] == kernels.GEMM &&
			(k.UnsupportedQuantized != nil || strings.Contains(k.lacksText(), "int4")) {
			t.Errorf("the plain kernel lacks %q", k.lacksText())
		}
	}
	only := KernelInfo{
		Name: "w4a16", Quantized: map[string][]kernels.DType{"int4": {kernels.FP16}},
		Unsupported: map[kernels.DType]string{kernels.FP16: "it takes quantized weights", kernels.BF16: "it takes quantized weights"},
		UnsupportedQuantized: map[string]map[kernels.DType]string{
			"int4": {kernels.BF16: "needs 8.0"}, "int8": {kernels.FP16: "it takes int4", kernels.BF16: "it takes int4"},
		},
	}
	if got, want := only.lacksText(), "bf16 with int4: needs 8.0; fp16 with int8, bf16 with int8: it takes int4"; got != want {
		t.Errorf("it lacks %q, want %q", got, want)
	}
	if got := only.typesText(); got != "weights int4" {
		t.Errorf("a kernel of quantized weights only: %q", got)
	}
	rows := kernelSheet([]DeviceInfo{{Kernels: []KernelInfo{only}}}, nil).Rows
	if state := rows[0][2]; state != (word{"available", Good}) {
		t.Errorf("it is %v", state)
	}
}
