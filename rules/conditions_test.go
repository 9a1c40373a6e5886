package rules

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// A bimodal row is anomalous only if its faster level is, clean only if its slower one is, and never a
// reference.
func TestBimodalRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	levels := map[int][2]float64{200: {1, 1.1}, 300: {1.08, 1.2}, 400: {0.9, 1.01}}
	w := synthetic.ByM(func(m int) float64 {
		us := float64(m)
		if l, ok := levels[m]; ok {
			us *= l[rng.IntN(2)]
		}
		return us
	}, synthetic.Gaussian(0.002), rng)
	a, err := RunAudit(t.Context(), w.Sweep(synthetic.Grid(4, 600, 4), 15), Default().Only(Monotonic), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]Verdict{200: Undecided, 300: Anomalous, 400: Clean}
	for _, r := range a.Series[0].Rows {
		verdict, two := want[r.M]
		switch {
		case r.M == 4:
			verdict = Unjudged // no smaller M
		case !two:
			verdict = Clean
		}
		if r.Verdict != verdict || (len(r.Modes) == 2) != two {
			t.Errorf("m%d is %s with levels %v, want %s", r.M, r.Verdict, r.Modes, verdict)
		}
		if r.Reference == 400 {
			t.Errorf("m%d is held against a row of two levels", r.M)
		}
	}
	if !hasWarning(a.Warnings, "3 rows with bimodal") {
		t.Errorf("warnings %v", a.Warnings)
	}
}

func TestConditionsAreTold(t *testing.T) {
	w := synthetic.ByM(func(m int) float64 { return float64(m) }, synthetic.Gaussian(0.02), rand.New(rand.NewPCG(5, 5)))
	data := w.Sweep(synthetic.Grid(400, 1600, 4), 7)
	a, err := RunAudit(t.Context(), data, Default().Only(Monotonic), nil)
	if err != nil {
		t.Fatal(err)
	}
	if hasWarning(a.Warnings, "order was not random") || hasWarning(a.Warnings, "timer is coarse") {
		t.Errorf("a random sweep with a fine timer: %v", a.Warnings)
	}
	var seq int64
	for round := range 7 {
		for i := range data.Series[0].Rows {
			s := &data.Series[0].Rows[i].Samples[round]
			s.Seq, s.US = seq, 8*math.Round(s.US/8)
			seq++
		}
	}
	if a, err = RunAudit(t.Context(), data, Default().Only(Monotonic), nil); err != nil {
		t.Fatal(err)
	}
	if !hasWarning(a.Warnings, "order was not random: M correlates") ||
		!hasWarning(a.Warnings, "timer is coarse: times are multiples of 8.000 us, 0.81 % of the median block of 992.0 us") {
		t.Errorf("an ordered sweep with a coarse timer: %v", a.Warnings)
	}
	data.Series[0].Key.Along = kernels.Along{Dimension: "n", M: 64}
	if a, err = RunAudit(t.Context(), data, Default().Only(Monotonic), nil); err != nil {
		t.Fatal(err)
	}
	if !hasWarning(a.Warnings, "order was not random: N correlates") {
		t.Errorf("an ordered sweep along N: %v", a.Warnings)
	}
}

// The clock is unknown, the machine's speed varies, and each row follows it with its own factor. The pace
// removes that.
func TestPaceTakesTheClocksPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	state := 0.0
	w := synthetic.ByM(func(m int) float64 { return float64(m) }, synthetic.Gaussian(0.003), rng)
	w.Follows = func(c results.Case) float64 {
		if c.M < 400 {
			return 0.1
		}
		return 1
	}
	w.Clock = func(results.Case) float64 {
		state = 0.97*state + 0.008*rng.NormFloat64() // a standard deviation of 3.3 %
		return 2000 * math.Exp(state)
	}
	data := w.Sweep(synthetic.Grid(4, 1600, 4), 7)
	scatter := func(d infer.Data) float64 {
		p := infer.Prepare(d, Default().Basis())
		var se []float64
		for _, pt := range p.Curves[0].Points {
			se = append(se, pt.US.SE)
		}
		return stats.Median(se)
	}
	known := scatter(data)
	for i := range data.Series[0].Rows {
		for k := range data.Series[0].Rows[i].Samples {
			data.Series[0].Rows[i].Samples[k].ClockMHz = 0
		}
	}
	for i := range data.Sentinels {
		data.Sentinels[i].ClockMHz = 0
	}
	hidden := scatter(data)
	plain := 0.033 * stats.CentreFactor / math.Sqrt(7)
	if known > 0.0015 || hidden > 0.6*plain || hidden < known {
		t.Errorf("standard errors: %.4f with clocks, %.4f without, %.4f if nothing were done", known, hidden, plain)
	}
}
