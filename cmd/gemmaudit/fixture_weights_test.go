package main

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

//docs:begin weights

// e2m1 are weights of four bits with an exponent of two, as in MXFP4.
var e2m1 = kernels.WeightType{
	Name: "e2m1", Bits: 4,
	Levels: []float64{-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6},
}

//docs:end

// A made-up format of weights goes through the commands.
func TestFixtureWeights(t *testing.T) {
	t.Cleanup(kernels.DefineWeights(e2m1))
	t.Chdir(t.TempDir())
	plain := simulated.Linear(200e9, 2e-6)
	packed := func(t kernels.Task) float64 { return plain(t) / 2 }
	fp16 := []kernels.DType{kernels.FP16}
	d := simulated.New(simulated.Config{LastLevelCacheBytes: 64 << 10, Gemms: []simulated.KernelConfig{
		{Name: "dented", Cost: plain, DTypes: fp16, Quantized: simulated.Slow(packed, 96, 128, 1.5)},
		{Name: "exact", Cost: plain, DTypes: fp16, Quantized: packed, Arithmetic: true},
	}})
	runSteps(t, d, []step{
		{"devices -o json", 0, []string{`"e2m1": \[\s+"fp16"`}},
		{"selftest --noise=false --kernel exact --dtype fp16", 0, nil},
		{"sweep --out run.db --weights e2m1:64 --shape n256k256 --batch 16:256:8 --dtype fp16 --kernel dented --rounds 9", 0,
			[]string{`e2m1 g64x1 fp16`}},
		{"audit run.db --confirm -o wide", 1, []string{`confirmed +monotonic .*weights e2m1 g64x1 fp16 +96-128`}},
		{"splits run.db", 0, []string{`\d+\+\d+`}},
		{"report run.db --out page --images svg", 0, nil},
		{"export run.db --format csv --out run.csv", 0, nil},
		{"import run.csv --out again.db", 0, nil},
		{"audit again.db --confirm=false -o wide", 4, []string{`e2m1`}},
		{"sweep --out no.db --weights e2m1:64:zero --shape n256k256 --batch 16 --dtype fp16", 2, []string{`no zero points`}},
		{"sweep --out no.db --weights e3m0:64 --shape n256k256 --batch 16", 2, []string{`or nvfp4 or e2m1`}},
	})
}
