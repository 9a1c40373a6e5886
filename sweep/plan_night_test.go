package sweep

import (
	"fmt"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// A million and a half rows: five products in three types on six kernels.
func night(tb testing.TB) (*Plan, *Predictor, map[string]int64) {
	tb.Helper()
	var gemms []simulated.KernelConfig
	for k := range 6 {
		gemms = append(gemms, simulated.KernelConfig{Name: fmt.Sprint("library", k), Cost: simulated.Linear(4e14, 2e-6)})
	}
	d := simulated.New(simulated.Config{LastLevelCacheBytes: 50 << 20, Gemms: gemms,
		Ceilings: kernels.Ceilings{ReadBandwidth: 4e12,
			Peaks: []kernels.Peak{{DType: kernels.BF16, FLOPS: 9e14, Origin: kernels.Measured}, {DType: kernels.FP16, FLOPS: 9e14,
				Origin: kernels.Measured}, {DType: kernels.INT8, FLOPS: 18e14, Origin: kernels.Measured}}}})
	ceilings, err := d.Ceilings(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	est := NewPredictor(map[string]kernels.Ceilings{d.Spec().ID: ceilings})
	p, err := NewPlan(tb.Context(), []kernels.Device{d}, Options{Preset: "overnight", Seed: 3,
		DTypes: []kernels.DType{kernels.BF16, kernels.FP16, kernels.INT8}}, est)
	if err != nil {
		tb.Fatal(err)
	}
	return p, est, CacheSizes([]kernels.Device{d})
}

func TestANightIsPlannedInLittle(t *testing.T) {
	p, est, llc := night(t)
	if n := p.Rows(); n != 5*3*6*32768 {
		t.Errorf("%d rows; notes %q", n, p.Notes)
	}
	data, err := p.Encode()
	if err != nil || len(data) > 40_000 {
		t.Errorf("the plan takes %d bytes (%v)", len(data), err)
	}
	seeds, err := p.Seeds(halver{every: 64}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := est.Plan(p, seeds, llc)
	if e.Rows != p.Rows() || e.Cases != 5*3*6*513 || e.Expected > 8*time.Hour || est.EveryRow(p) < 10*e.Expected {
		t.Errorf("%+v, every row %v", e, est.EveryRow(p))
	}
	if e.First > p.Step/time.Duration(p.Screening)+time.Second || e.First > e.Round {
		t.Errorf("the first round takes %v, all %v; a step %v", e.First, e.Round, p.Step)
	}
}

func BenchmarkPlanNight(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		p, _, _ := night(b)
		data, err := p.Encode()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := DecodePlan(data); err != nil {
			b.Fatal(err)
		}
	}
}
