package rules

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// A bimodal row is anomalous only if its faster level is, clean only if its slower one is, and never a
// reference.
func TestBimodalRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	levels := map[int][2]float64{200: {1, 1.1}, 300: {1.08, 1.2}, 400: {0.9, 1.01}}
	w := byM(func(m int) float64 {
		us := float64(m)
		if l, ok := levels[m]; ok {
			us *= l[rng.IntN(2)]
		}
		return us
	}, gaussian(0.002), rng)
	a, err := RunAudit(t.Context(), w.sweep(grid(4, 600, 4), 15), Default().Only(Monotonic), nil)
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
	w := byM(func(m int) float64 { return float64(m) }, gaussian(0.02), rand.New(rand.NewPCG(5, 5)))
	data := w.sweep(grid(400, 1600, 4), 7)
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
	w := byM(func(m int) float64 { return float64(m) }, gaussian(0.003), rng)
	w.follows = func(c results.Case) float64 {
		if c.M < 400 {
			return 0.1
		}
		return 1
	}
	w.clock = func(results.Case) float64 {
		state = 0.97*state + 0.008*rng.NormFloat64() // a standard deviation of 3.3 %
		return 2000 * math.Exp(state)
	}
	data := w.sweep(grid(4, 1600, 4), 7)
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

// Neighbors slower by less than the case threshold form a stretch; scattered slow rows don't.
func TestSlowStretches(t *testing.T) {
	cfg := Default()
	ratios := func(slow func(m int) float64) *DiffResult {
		var sides [2]infer.Data
		for k := range sides {
			w := byM(func(m int) float64 {
				us := float64(m)
				if k == 1 {
					us *= slow(m)
				}
				return us
			}, gaussian(0.005), rand.New(rand.NewPCG(7, uint64(k))))
			sides[k] = w.sweep(grid(4, 2000, 4), 7)
		}
		d, err := Diff(sides[0], sides[1], cfg)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := ratios(func(m int) float64 {
		if m >= 800 && m <= 1000 {
			return 1.026
		}
		return 1
	})
	if d.Slower != 0 || !d.Gate || d.SlowerStretches == 0 || d.SlowerSeries != 0 {
		t.Errorf("%d slower cases, gate %v, %d stretches, %d series", d.Slower, d.Gate, d.SlowerStretches, d.SlowerSeries)
	}
	for _, s := range d.Series[0].Stretches {
		if s.FromM < 790 || s.ToM > 1010 {
			t.Errorf("stretch %+v", s)
		}
	}
	if d := ratios(func(int) float64 { return 1 }); d.Gate || d.Undecided > 0 || d.Same != len(d.Cases) {
		t.Errorf("equal runs: gate %v, %d of %d the same", d.Gate, d.Same, len(d.Cases))
	}
	if d := ratios(func(int) float64 { return 1.015 }); d.Gate || d.SlowerSeries != 0 || d.Slower != 0 {
		t.Errorf("a series slower by 1.5 %%: gate %v, %d series, %d cases", d.Gate, d.SlowerSeries, d.Slower)
	}
	if d := ratios(func(int) float64 { return 1.027 }); !d.Gate || d.SlowerSeries != 1 || d.Slower != 0 {
		t.Errorf("a series slower by 2.7 %%: gate %v, %d series, %d cases", d.Gate, d.SlowerSeries, d.Slower)
	}
}

func TestNearestSeries(t *testing.T) {
	at := func(kernel string, dtype kernels.DType) infer.Data {
		w := byM(func(m int) float64 { return float64(m) }, gaussian(0.01), rand.New(rand.NewPCG(1, 1)))
		w.key.Kernel, w.key.DType = kernel, dtype
		return w.sweep(grid(4, 40, 4), 5)
	}
	d, err := Diff(at("lib", kernels.BF16), at("lib", kernels.FP16), Default())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(d.Invalid, "no case in common") || !strings.Contains(d.Invalid, "differ in dtype (bf16, fp16)") {
		t.Errorf("invalid: %q", d.Invalid)
	}
}
