package cpu

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestAutoPicksByTheModel(t *testing.T) {
	dev := open(t, 2)
	// Without AMX, the choice between vector kernels is the same on all machines.
	dev.gemms = withoutAMX(dev.gemms)
	k := &auto{dev}
	for _, test := range []struct {
		m, n, k int
		dtype   kernels.DType
		want    string
	}{
		{1, 14336, 4096, kernels.BF16, "gemv 1x32 memory"},
		{1, 14336, 4096, kernels.FP32, "gemv 1x32 memory"},
		{4, 4096, 14336, kernels.FP16, "gemv 4x32"},
		{17, 14336, 4096, kernels.FP32, "tiled"},
		{1024, 4096, 4096, kernels.INT8, "tiled"},
		{4096, 4096, 4096, kernels.FP32, "compute"},
	} {
		p := kernels.Task{Subject: kernels.Product(test.dtype, test.n, test.k), M: test.m}
		if got := k.pick(p).label(); !strings.Contains(got, test.want) {
			t.Errorf("%v %s: picked %q, want %q", p.Shape(), test.dtype, got, test.want)
		}
	}
}

func TestAutoPrefersAMXWhereTilesPay(t *testing.T) {
	dev := open(t, 2)
	dev.features = features{AVX2: true, FMA: true, F16C: true, AVX512: true, AVX512VNNI: true, AVX512BF16: true, AMX: true}
	dev.gemms = append(withoutAMX(dev.gemms), fakeAMX{})
	k := &auto{dev}
	for _, test := range []struct {
		m     int
		dtype kernels.DType
		want  string
	}{
		{1, kernels.BF16, "gemv"},
		{64, kernels.BF16, "amx 32x32"},
		{1024, kernels.BF16, "amx 32x32 compute"},
		{1024, kernels.INT8, "amx 32x32 compute"},
		{1024, kernels.FP32, "tiled"},
	} {
		p := kernels.Task{Subject: kernels.Product(test.dtype, 4096, 4096), M: test.m}
		if got := k.pick(p).label(); !strings.HasPrefix(got, test.want) {
			t.Errorf("m%d %s: picked %q, want %q", test.m, test.dtype, got, test.want)
		}
	}
}

func withoutAMX(gemms []kernels.Kernel) []kernels.Kernel {
	var out []kernels.Kernel
	for _, g := range gemms {
		if g.Name() != "amx" {
			out = append(out, g)
		}
	}
	return out
}

// fakeAMX replaces amx on machines without it; it implements only Supports.
type fakeAMX struct{ kernels.Kernel }

func (fakeAMX) Name() string { return "amx" }

func (fakeAMX) Supports(p kernels.Task) error {
	if p.DType == kernels.BF16 || p.DType == kernels.INT8 {
		return nil
	}
	return &kernels.Unsupported{Kernel: "amx", DType: p.DType, Reason: "tiles multiply bf16 and int8"}
}
