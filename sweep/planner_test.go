package sweep

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// Like recordings of PyTorch: some Ms for each of many weights.
func workload(n int) Options {
	o := Options{DTypes: []kernels.DType{kernels.FP32}}
	for i := range n {
		o.Targets = append(o.Targets, Target{Operation: kernels.GEMM, N: 64 * (1 + i%128), K: 64, M: 1 + (n-i)/128})
	}
	return o
}

func anyDevice() *simulated.Device {
	return simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{{Name: "any", Cost: simulated.Linear(1e9, 0)}}})
}

func TestPlansJoinTargets(t *testing.T) {
	o := workload(1024)
	o.Targets = append(o.Targets, o.Targets[:300]...)
	p, err := NewPlan(t.Context(), []kernels.Device{anyDevice()}, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Series) != 128 {
		t.Errorf("%d series, expected 128", len(p.Series))
	}
	for _, s := range p.Series {
		want := Batches{1, 2, 3, 4, 5, 6, 7, 8}
		if s.N == 64 {
			want = Batches{2, 3, 4, 5, 6, 7, 8, 9}
		}
		if !slices.Equal(s.Ms, want) {
			t.Errorf("n%d: %v, expected %v", s.N, s.Ms, want)
		}
	}
}

type ending struct {
	context.Context
	left int
}

func (c *ending) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestPlanningIsInterrupted(t *testing.T) {
	const targets = 256
	d := anyDevice()
	est := NewPredictor(map[string]kernels.Ceilings{})
	o := workload(targets)
	o.Budget = time.Millisecond // forces the plan to be thinned
	o.Traffic = results.Traffic{{M: 1, Weight: 1}, {M: 2, Weight: 2}}
	asked := 0
	for {
		_, err := NewPlan(&ending{t.Context(), asked}, []kernels.Device{d}, o, est)
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled when asked %d times: %v", asked, err)
		}
		asked++
	}
	if asked < targets+2 {
		t.Errorf("the context was asked %d times, expected once for each of %d targets and when the plan is thinned", asked, targets)
	}
}

// BenchmarkPlanWorkload plans the largest accepted recorded workload.
func BenchmarkPlanWorkload(b *testing.B) {
	o := workload(1 << 14)
	for _, t := range o.Targets[:128] {
		o.Traffic = append(o.Traffic, results.Load{M: 1 + len(o.Traffic), Weight: float64(t.N)})
	}
	for b.Loop() {
		if _, err := NewPlan(b.Context(), []kernels.Device{anyDevice()}, o, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// A plan slightly over budget loses intermediate Ms, not the largest or smallest.
func TestThinSpreadsFirst(t *testing.T) {
	d := library(1, 0)
	ceilings, err := d.Ceilings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	measured := false
	p := planned(t, d, "1:1000", func(o *Options) { o.DTypes, o.Infer = []kernels.DType{kernels.BF16}, &measured })
	est := NewPredictor(map[string]kernels.Ceilings{d.Spec().ID: ceilings})
	budget := est.Plan(p, nil, nil).Expected * 3 / 4
	p.thin(t.Context(), est, nil, budget, &Options{})
	ms := p.Series[0].Ms
	if len(ms) >= 1000 || ms[len(ms)-1] < 950 || ms[wholeBatches-1] != wholeBatches {
		t.Errorf("%d Ms stay, from m%d to m%d", len(ms), ms[0], ms[len(ms)-1])
	}
	if took := est.Plan(p, nil, nil).Expected; took > budget {
		t.Errorf("they take %v of %v", took, budget)
	}
}

func TestFirstStepIsPredicted(t *testing.T) {
	for _, infer := range []bool{true, false} {
		p := planned(t, library(1, 0), "1:1000", func(o *Options) { o.DTypes, o.Infer = []kernels.DType{kernels.BF16}, &infer })
		est := NewPredictor(nil)
		round := est.Plan(p, nil, nil).Round
		p.Step = round / 4 * time.Duration(p.Screening)
		if got := est.Plan(p, nil, nil); infer && got.First != round/4 || !infer && got.First != round {
			t.Errorf("inferred %v: a round takes %v, the first %v", infer, round, got.First)
		}
	}
}
