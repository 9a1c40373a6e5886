package decoder

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

func manyWeights(n int) []kernels.Weights { return make([]kernels.Weights, n) }

func TestExpertPlans(t *testing.T) {
	used := map[string]bool{}
	formats := []string{"", "int4:128", "int4:64", "int4:32:zero", "int4:64:zero", "int4:128:zero", "int4:32", "int8:128"}
	for _, a := range cudatest.Archs {
		for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
			for _, size := range [][3]int{{64, 96, 4}, {4096, 14336, 8}, {2048, 768, 32}, {100, 50, 3}} {
				for _, topK := range []int{1, 2, 3} {
					for _, weights := range formats {
						o := kernels.FusedExperts{Hidden: size[0], Inner: size[1], TopK: topK, DType: dt, Epsilon: 1e-5,
							Units: manyWeights(size[2]), Outputs: manyWeights(size[2])}
						checkExpertPlans(t, a, o, weights, used)
					}
				}
			}
		}
	}
	for _, prefix := range []string{"ga_expert_", "ga_units_", "ga_outputs_"} {
		cudatest.Unused(t, prefix, used)
	}
}

func checkExpertPlans(t *testing.T, a planning.Arch, o kernels.FusedExperts, weights string, used map[string]bool) {
	t.Helper()
	units, outputs := expertProducts(o)
	var formats [2]kernels.WeightFormat
	for i, p := range []kernels.FusedProduct{units, outputs} {
		if weights == "" {
			break
		}
		q, err := kernels.ParseWeights(weights)
		if err != nil {
			t.Fatal(err)
		}
		if formats[i], err = q.For(o.DType, p.K); err != nil {
			return
		}
	}
	if err := checkExperts(a, o, formats); err != nil {
		if unsupported := (*kernels.Unsupported)(nil); !errors.As(err, &unsupported) {
			t.Fatal(err)
		}
		if a.CC == 90 && o.DType != kernels.FP32 && o.Hidden >= 2048 && formats[0].Bits != 8 {
			t.Errorf("%+v, weights %s: %v", o, weights, err)
		}
		return
	}
	calls := []planning.Call{expertChoiceCall(a, o, expertAddresses{x: 1 << 32, weight: 2 << 32, router: 3 << 32, choice: 4 << 32,
		ldb: support.PackedLDB(o.DType, o.Hidden)})}
	for i, p := range []kernels.FusedProduct{units, outputs} {
		at := fusedAddresses{b: 1 << 32, x: 2 << 32, weight: 3 << 32, c: 4 << 32, ldb: support.PackedLDB(o.DType, p.K)}
		role := []expertRole{unitRole(o.TopK), outputRole(o.TopK)}[i]
		c, label := role.plan(a, p, formats[i], at, 5<<32)
		if label == "" {
			t.Errorf("%s has no label", c.Kernel)
		}
		calls = append(calls, c)
	}
	for _, c := range calls {
		if err := cudatest.CheckCall(a, c); err != nil {
			t.Fatalf("%d, %+v, weights %s: %v", a.CC, o, weights, err)
		}
		used[c.Kernel] = true
	}
	rows, err := expertRowsCall(a, kernels.ExpertRows{Count: 9, Columns: o.Hidden, DType: o.DType, FromRows: 4}, transformerAddresses{})
	sums, err2 := expertSumsCall(a, kernels.ExpertSums{Count: 9, Columns: o.Hidden, TopK: o.TopK, DType: o.DType}, transformerAddresses{})
	for _, err := range []error{err, err2, cudatest.CheckCall(a, rows), cudatest.CheckCall(a, sums)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	used[rows.Kernel], used[sums.Kernel] = true, true
}

// The products of Mixtral-8x7B fill an H200 with two blocks per multiprocessor, as those of dense models do.
func TestExpertBlocks(t *testing.T) {
	o := kernels.FusedExperts{Hidden: 4096, Inner: 14336, TopK: 2, DType: kernels.BF16, Units: manyWeights(8), Outputs: manyWeights(8)}
	units, outputs := expertProducts(o)
	for i, p := range []kernels.FusedProduct{units, outputs} {
		f, err := kernels.IntegerWeights(4, 128, false).For(kernels.BF16, p.K)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			f      kernels.WeightFormat
			blocks [2]int
		}{{kernels.WeightFormat{}, [2]int{264, 264}}, {f, [2]int{264, 256}}} {
			call, _ := []expertRole{unitRole(2), outputRole(2)}[i].plan(cudatest.H200, p, c.f, fusedAddresses{ldb: p.K}, 0)
			if call.Grid.X != c.blocks[i] || !call.Overlap {
				t.Errorf("n%d k%d weights %v: %d blocks, want %d", p.N, p.K, c.f, call.Grid.X, c.blocks[i])
			}
		}
	}
}

func TestExpertSizes(t *testing.T) {
	valid := kernels.FusedExperts{Hidden: 64, Inner: 96, TopK: 2, DType: kernels.FP16, Units: manyWeights(4), Outputs: manyWeights(4)}
	of := func(scale kernels.DType) [2]kernels.WeightFormat {
		f := kernels.WeightFormat{Type: "int4", Bits: 4, GroupK: 32, GroupN: 1, Scale: scale}
		return [2]kernels.WeightFormat{f, f}
	}
	for _, c := range []struct {
		change      func(*kernels.FusedExperts)
		formats     [2]kernels.WeightFormat
		want        string
		unsupported bool
	}{
		{func(o *kernels.FusedExperts) {}, [2]kernels.WeightFormat{}, "", false},
		{func(o *kernels.FusedExperts) { o.TopK = 5 }, [2]kernels.WeightFormat{}, "5 experts per row of 4", false},
		{func(o *kernels.FusedExperts) { o.TopK = 0 }, [2]kernels.WeightFormat{}, "experts per row: 0", false},
		{func(o *kernels.FusedExperts) { o.Outputs = nil }, [2]kernels.WeightFormat{}, "weights of 4 units and 0 outputs", false},
		{func(o *kernels.FusedExperts) { o.Epsilon = math.NaN() }, [2]kernels.WeightFormat{}, "epsilon is NaN", false},
		{func(o *kernels.FusedExperts) { o.Inner = 0 }, [2]kernels.WeightFormat{}, "inner: 0", false},
		{func(o *kernels.FusedExperts) { o.Units, o.Outputs = manyWeights(33), manyWeights(33) }, [2]kernels.WeightFormat{},
			"among at most 32 experts, not 33", true},
		{func(o *kernels.FusedExperts) { o.DType = kernels.FP8 }, [2]kernels.WeightFormat{}, "not fp8", true},
		{func(o *kernels.FusedExperts) {}, of(kernels.BF16), "are of bf16, not fp16", true},
		{func(o *kernels.FusedExperts) {}, [2]kernels.WeightFormat{{Type: "int8", Bits: 8, GroupK: 32, GroupN: 1, Scale: kernels.FP16},
			{Type: "int8", Bits: 8, GroupK: 32, GroupN: 1, Scale: kernels.FP16}}, "4 bits, not 8", true},
		{func(o *kernels.FusedExperts) { o.Inner = 8 }, of(kernels.FP16), "at a multiple of 16, not at 8", true},
		{func(o *kernels.FusedExperts) { o.Hidden = 40000 }, of(kernels.FP16), "outputs of 2 experts have at most 33792 rows", true},
	} {
		o := valid
		c.change(&o)
		err := checkExperts(cudatest.H200, o, c.formats)
		unsupported := (*kernels.Unsupported)(nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			errors.As(err, &unsupported) != c.unsupported {
			t.Errorf("%+v: %v, want %q", o, err, c.want)
		}
	}
	_, err := expertSumsCall(cudatest.H200, kernels.ExpertSums{Count: 1 << 20, Columns: 8, TopK: 1 << 12, DType: kernels.FP16},
		transformerAddresses{})
	if err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("sums of too many rows: %v", err)
	}
}
