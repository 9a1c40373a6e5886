package cublas

import (
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func TestBlasProduct(t *testing.T) {
	p := kernels.Task{Subject: kernels.Product("", 5, 7), M: 3, LDA: 11, LDB: 13, LDC: 17}
	for d, want := range map[kernels.DType][4]int{
		kernels.FP32: {0, 0, 68, 0}, kernels.TF32: {0, 0, 77, 0}, kernels.FP16: {2, 2, 68, 0},
		kernels.BF16: {14, 14, 68, 0}, kernels.FP8: {28, 14, 68, 0}, kernels.INT8: {3, 10, 72, 10},
	} {
		p.DType = d
		b := blasProductOf(p, 19, true)
		if got := [4]int{b.in, b.out, b.compute, b.scaleTypes}; got != want {
			t.Errorf("%s: types %v, want %v", d, got, want)
		}
		if !b.transposed || b.m != 5 || b.n != 3 || b.k != 7 || b.ldb != 19 || b.lda != 11 || b.ldc != 17 {
			t.Errorf("%s: %+v", d, b)
		}
	}
}

func TestBlasRefusals(t *testing.T) {
	turing, hopper := planning.Arch{CC: 75}, planning.Arch{CC: 90}
	for _, c := range []struct {
		a      planning.Arch
		d      kernels.DType
		change func(*kernels.Task)
		cublas string
		either string
	}{
		{hopper, kernels.FP32, nil, "", ""},
		{hopper, kernels.FP8, nil, "cublaslt does", ""},
		{hopper, kernels.INT8, nil, "", ""},
		{hopper, kernels.INT8, func(p *kernels.Task) { p.LDA = 66 }, "lda is 66", ""},
		{hopper, kernels.FP16, func(p *kernels.Task) { p.LDA = 66 }, "", ""},
		{hopper, kernels.FP16, func(p *kernels.Task) { p.LDC = math.MaxInt32 + 1 }, "32-bit", ""},
		{turing, kernels.FP16, nil, "", ""},
		{turing, kernels.BF16, nil, "capability 8.0, this GPU has 7.5", "capability 8.0"},
		{turing, kernels.TF32, nil, "capability 8.0", "capability 8.0"},
		{turing, kernels.FP8, nil, "capability 8.9", "capability 8.9"},
	} {
		p, err := kernels.Task{Subject: kernels.Product(c.d, 64, 64), M: 4}.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(&p)
		}
		for _, got := range []struct{ text, want string }{{cublasRefusal(c.a, p), c.cublas}, {blasRefusal(c.a, p), c.either}} {
			if (got.text == "") != (got.want == "") || !strings.Contains(got.text, got.want) {
				t.Errorf("%s on %d: refused for %q, want %q", c.d, c.a.CC, got.text, got.want)
			}
		}
	}
	if got := blasWorkspaceBytes(turing); got != 8519680 {
		t.Errorf("workspace of %d bytes, want PyTorch's 8519680", got)
	}
	if got := blasWorkspaceBytes(hopper); got != 33554432 {
		t.Errorf("workspace of %d bytes on Hopper", got)
	}
	for address, want := range map[uint64]int{0: 256, 1: 1, 2: 2, 0x7f00: 256, 0x7f80: 128, 0x1004: 4, 0x10010: 16, 1 << 40: 256} {
		if got := addressAlignment(address); got != want {
			t.Errorf("%#x is aligned to %d, want %d", address, got, want)
		}
	}
}
