package sweep

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// A deadline too short for a model's plan leaves both ends of M in each series and the heaviest products. The plan
// counts what is missing.
func TestShortDeadlineSpreads(t *testing.T) {
	d, est := machine(t, 1)
	devices := []kernels.Device{d}
	targets, err := ModelTargets(kernels.GEMM, "llama3-8b", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	full, err := NewPlan(t.Context(), devices, Options{Preset: "quick", Targets: targets, Budget: -1}, est)
	if err != nil {
		t.Fatal(err)
	}
	needs := est.Plan(full, nil, CacheSizes(devices)).Screening
	for _, c := range []struct {
		deadline time.Duration
		products int
	}{{needs, 4}, {needs / 8, 1}, {time.Millisecond, 1}} {
		p, err := NewPlan(t.Context(), devices, Options{Preset: "quick", Targets: targets, Deadline: c.deadline}, est)
		if err != nil {
			t.Fatal(err)
		}
		if short := c.deadline < needs; short && (!p.Spread || p.Step == 0) {
			t.Errorf("deadline %v: not taken in step by step", c.deadline)
		}
		products := map[[2]int]bool{}
		for _, s := range p.Series {
			products[[2]int{s.N, s.K}] = true
			if ms := s.Ms; ms[0] != 1 || ms[len(ms)-1] != 512 || len(ms) < leastSpread || len(ms) == len(full.Series[0].Ms) {
				t.Errorf("deadline %v: %v measures %v", c.deadline, s.SeriesKey, ms)
			}
		}
		if len(products) < c.products || len(products) < 4 && !products[[2]int{28672, 4096}] {
			t.Errorf("deadline %v: products %v", c.deadline, products)
		}
		if p.Cut == nil || p.Cut.Planned != p.Rows() || p.Cut.Products != 4 || len(p.Cut.LeftOut) != 4-len(products) {
			t.Errorf("deadline %v: cut %v of %d products", c.deadline, p.Cut, len(products))
		}
		if strings.Contains(fmt.Sprint(p.Notes), "case") {
			t.Errorf("deadline %v: notes %v", c.deadline, p.Notes)
		}
	}
	roomy, err := NewPlan(t.Context(), devices, Options{Preset: "quick", Targets: targets, Deadline: 24 * time.Hour, Budget: -1}, est)
	if err != nil {
		t.Fatal(err)
	}
	if roomy.Cut != nil || roomy.Spread || roomy.Rows() != full.Rows() {
		t.Errorf("a day: %d of %d rows, spread %v", roomy.Rows(), full.Rows(), roomy.Spread)
	}
}

// On a slower machine, the reached rows have all screening samples and include the smallest and largest M.
func TestDeadlineMeasuresEnds(t *testing.T) {
	d := stepped()
	ceilings, err := d.Ceilings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	est := NewPredictor(map[string]kernels.Ceilings{d.Spec().ID: ceilings})
	p, err := hurriedPlan(d, "8:400",
		Options{Targets: []Target{{N: 64, K: 64}}, Screening: 7, BlockTarget: 200 * time.Microsecond, Deadline: 400 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	p.spread(est, nil)
	if !p.Spread {
		t.Fatalf("%v fits the deadline", est.Plan(p, nil, nil).Expected)
	}
	run := newRun(t, p)
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(t.Context())
	if err != nil || sum.Status != StatusDeadline {
		t.Fatalf("%+v, %v", sum, err)
	}
	samples, err := run.Samples(results.PhaseSweep)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	m, count := map[int64]int{}, map[int]int{}
	for _, c := range cases {
		m[c.ID] = c.M
	}
	for _, s := range samples {
		count[m[s.CaseID]]++
	}
	if len(count) > 300 || count[8] < p.Screening || count[400] < p.Screening || count[204] < p.Screening {
		t.Errorf("%d Ms; samples of m8 %d, m204 %d, m400 %d, expected %d", len(count), count[8], count[204], count[400], p.Screening)
	}
}
