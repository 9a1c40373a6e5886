package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/results"
)

func choiceProblem(t testing.TB, m int, d kernels.DType) kernels.Task {
	t.Helper()
	p, err := kernels.Task{Subject: kernels.Linear(d, 14336, 4096), M: m}.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Along a series, the number of concurrent blocks of one kind is constant, so waves follow from M.
func TestOwnChoices(t *testing.T) {
	for _, d := range []kernels.DType{kernels.BF16, kernels.FP8} {
		kinds := map[string]results.LaunchKind{}
		for m := 1; m <= 8192; m += 37 {
			p := choiceProblem(t, m, d)
			c, ok := gemm.ChoiceOf(families, cudatest.H200, p)
			if !ok {
				t.Fatalf("%v: nothing runs it", p.Shape())
			}
			k := results.KindOf(c, p.M, p.N)
			if c.Label == "" || !c.Tiled() || c.Grid[0] < 1 || c.Stages < 1 || k.Slots < 1 || c.Waves <= 0 {
				t.Errorf("%v: %+v", p.Shape(), c)
			}
			if first, there := kinds[k.Label]; there && first != k {
				t.Errorf("%v: %+v, and before it %+v", p.Shape(), k, first)
			}
			kinds[k.Label] = k
		}
		if len(kinds) < 10 {
			t.Errorf("%s: %d kinds of launches", d, len(kinds))
		}
	}
	if _, ok := gemm.ChoiceOf(families[:1], cudatest.H200, choiceProblem(t, 64, kernels.FP32)); ok {
		t.Error("hopper multiplies fp32")
	}
}

func BenchmarkOwnChoice(b *testing.B) {
	among := map[string][]gemm.Family{"auto": families}
	for _, f := range families {
		among[f.Name()] = []gemm.Family{f}
	}
	for _, name := range []string{"auto", "hopper", "mma", "tiled"} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, ok := gemm.ChoiceOf(among[name], cudatest.H200, choiceProblem(b, 1+i*37%32768, kernels.BF16)); !ok {
					b.Fatal("nothing runs it")
				}
			}
		})
	}
}
