package decoder

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

func chainOf(t *testing.T, dt kernels.DType, q kernels.WeightFormat, products ...kernels.FusedProduct) (c chain) {
	t.Helper()
	for _, p := range products {
		f, err := q.For(dt, p.K)
		if err != nil {
			t.Fatal(err)
		}
		p.DType = dt
		c.products, c.formats = append(c.products, p), append(c.formats, f)
		c.at = append(c.at, fusedAddresses{b: 1 << 32, a: 2 << 32, x: 3 << 32, c: 5 << 32, ldb: quantizedLDB(p)})
	}
	return c
}

func TestChainPlans(t *testing.T) {
	used := map[string]bool{}
	for _, dt := range []kernels.DType{kernels.FP16, kernels.BF16} {
		for _, group := range []int{64, 128, 0} {
			for _, zeros := range []bool{false, true} {
				for _, s := range [][3]int{{4096, 14336, 6144}, {2048, 5632, 2560}, {4096, 11008, 12288}} {
					c := chainOf(t, dt, kernels.IntegerWeights(4, group, zeros), kernels.FusedProduct{N: s[0], K: s[0], Add: true},
						kernels.FusedProduct{N: 2 * s[1], K: s[0], Norm: true, Gated: true},
						kernels.FusedProduct{N: s[0], K: s[1], Add: true},
						kernels.FusedProduct{N: s[2], K: s[0], Norm: true})
					if reason := c.reason(cudatest.H200); reason != "" {
						t.Errorf("%v of %s, int4:%d, zeros %v: %s", s, dt, group, zeros, reason)
						continue
					}
					call := c.call(cudatest.H200, 1<<33)
					if err := cudatest.CheckCall(cudatest.H200, call); err != nil {
						t.Error(err)
					}
					if call.Grid.X > cudatest.H200.SMs || call.Grid.X%8 != 0 {
						t.Errorf("%d blocks wait for each other on %d multiprocessors", call.Grid.X, cudatest.H200.SMs)
					}
					used[call.Kernel] = true
				}
			}
		}
	}
	cudatest.Unused(t, "ga_chain_", used)
}

func TestChainReason(t *testing.T) {
	small, wide := kernels.FusedProduct{N: 256, K: 256}, kernels.FusedProduct{N: 256, K: 1 << 16}
	int4, int8 := kernels.IntegerWeights(4, 128, false), kernels.IntegerWeights(8, 128, false)
	mixed := chainOf(t, kernels.FP16, int4, small, small)
	mixed.formats[1].GroupK = 64
	for _, c := range []struct {
		chain chain
		want  string
	}{
		{chainOf(t, kernels.FP16, int4, small, small), ""},
		{chainOf(t, kernels.FP16, int4, small), "not 1"},
		{chainOf(t, kernels.FP16, int4, small, small, small, small, small), "not 5"},
		{chainOf(t, kernels.FP16, int8, small, small), "of 4 bits"},
		{chainOf(t, kernels.FP16, int4, small, wide), "bytes of shared memory"},
		{mixed, "w4_fp16_g128, then w4_fp16_g64"},
		{chainOf(t, kernels.FP16, kernels.IntegerWeights(4, 32, false), small, small), "not 32"},
		{chainOf(t, kernels.FP16, int4, small, kernels.FusedProduct{N: 192, K: 256, Gated: true}), "not at 96"},
	} {
		if got := c.chain.reason(cudatest.H200); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d products: %q, want %q", len(c.chain.products), got, c.want)
		}
	}
}
