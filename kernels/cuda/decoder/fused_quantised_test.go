package decoder

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func TestFusedQuantizedPlans(t *testing.T) {
	used := map[string]bool{}
	for _, a := range cudatest.Archs {
		for _, dt := range []kernels.DType{kernels.FP16, kernels.BF16} {
			for _, bits := range []int{4, 8} {
				for _, group := range []int{32, 64, 128, 256, 0} {
					for _, zeros := range []bool{false, true} {
						for _, n := range []int{1, 96, 4096, 28672, 128256} {
							for _, k := range []int{256, 4096, 14336, 28672} {
								f, err := kernels.IntegerWeights(bits, group, zeros).For(dt, k)
								if err != nil {
									t.Fatal(err)
								}
								p := kernels.FusedProduct{N: n, K: k, DType: dt, Norm: true, Gated: n%32 == 0, Epsilon: 1e-5}
								if reason := quantizedReason(a, p, f); reason != "" {
									if a.CC == 90 {
										t.Errorf("n%d k%d %v: %s", n, k, f, reason)
									}
									continue
								}
								c, label := quantizedPlan(a, p, f,
									fusedAddresses{b: 1 << 32, x: 3 << 32, weight: 4 << 32, c: 5 << 32, ldb: quantizedLDB(p)})
								if err := cudatest.CheckCall(a, c); err != nil || label == "" {
									t.Fatalf("%d, n%d k%d %v: %q, %v", a.CC, n, k, f, label, err)
								}
								used[c.Kernel] = true
							}
						}
					}
				}
			}
		}
	}
	cudatest.Unused(t, "ga_integers_w", used)
}

// Exactly two blocks fit on a multiprocessor of an H200 for all products of a 7B model, because a third would
// unbalance the load.
func TestFusedQuantizedBlocks(t *testing.T) {
	for _, c := range []struct {
		n, k   int
		gated  bool
		blocks int
	}{{6144, 4096, false, 264}, {4096, 4096, false, 256}, {28672, 4096, true, 264}, {4096, 14336, false, 256}} {
		for _, weights := range []string{"int4:128", "int4:32:zero", "int8:128", "int8:32:zero"} {
			q, err := kernels.ParseWeights(weights)
			if err != nil {
				t.Fatal(err)
			}
			f, err := q.For(kernels.BF16, c.k)
			if err != nil {
				t.Fatal(err)
			}
			p := kernels.FusedProduct{N: c.n, K: c.k, DType: kernels.BF16, Gated: c.gated}
			call, _ := quantizedPlan(cudatest.H200, p, f, fusedAddresses{ldb: quantizedLDB(p)})
			if call.Grid.X != c.blocks {
				t.Errorf("n%d k%d %s: %d blocks, want %d", c.n, c.k, weights, call.Grid.X, c.blocks)
			}
			const reserved = 1 << 10
			if each, all := call.Shared+reserved, cudatest.H200.SharedMax+reserved; 2*each > all || 3*each <= all {
				t.Errorf("n%d k%d %s: blocks of %d bytes on multiprocessors of %d", c.n, c.k, weights, each, all)
			}
		}
	}
}

func TestFusedQuantizedReason(t *testing.T) {
	of := func(scale kernels.DType, group int) kernels.WeightFormat {
		return kernels.WeightFormat{Type: "int4", Bits: 4, GroupK: group, GroupN: 1, Scale: scale}
	}
	older := cudatest.H200
	older.CC = 80
	for _, c := range []struct {
		a    planning.Arch
		p    kernels.FusedProduct
		f    kernels.WeightFormat
		want string
	}{
		{cudatest.H200, kernels.FusedProduct{N: 64, K: 256, DType: kernels.FP16, Gated: true}, of(kernels.FP16, 128), ""},
		{older, kernels.FusedProduct{N: 64, K: 256, DType: kernels.FP16}, of(kernels.FP16, 128),
			"need compute capability 9.0, this GPU has 8.0"},
		{cudatest.H200, kernels.FusedProduct{N: 64, K: 256, DType: kernels.BF16}, of(kernels.FP16, 128), "are of fp16, not bf16"},
		{cudatest.H200, kernels.FusedProduct{N: 64, K: 288, DType: kernels.FP16}, of(kernels.FP16, 96),
			"have groups that records hold, not 96"},
		{cudatest.H200, kernels.FusedProduct{N: 48, K: 256, DType: kernels.FP16, Gated: true}, of(kernels.FP16, 128),
			"begin at a multiple of 16, not at 24"},
		{cudatest.H200, kernels.FusedProduct{N: 64, K: 1 << 17, DType: kernels.FP16}, of(kernels.FP16, 128), "a row of K 131072 takes "},
	} {
		if got := quantizedReason(c.a, c.p, c.f); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v on %d: %q, want %q", c.p, c.a.CC, got, c.want)
		}
	}
}
