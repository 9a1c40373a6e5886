package rules

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func TestTwoModes(t *testing.T) {
	for _, c := range []struct {
		name  string
		y     []float64
		slow  float64
		fast  float64
		sigma float64
	}{
		{"one level", []float64{0, 0.001, -0.001, 0.002, 0, -0.002, 0.001}, 0, 0, 0.002},
		{"two levels", []float64{0, 0.05, 0.001, 0.051, -0.001, 0.049, 0}, 3.0 / 7, 0, 0.002},
		{"a stray", []float64{0, 0.001, -0.001, 0.08, 0, -0.002, 0.001}, 0, 0, 0.002},
		{"broad", []float64{0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06}, 0, 0, 0.002},
		{"apart by no more than scatter", []float64{0, 0.012, 0.001, 0.013, -0.001, 0.011, 0}, 0, 0, 0.004},
		{"too few", []float64{0, 0.1, 0}, 0, 0, 0.002},
	} {
		got := twoModes(slices.Sorted(slices.Values(c.y)), c.sigma)
		if (got != nil) != (c.slow > 0) {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		if got != nil && (math.Abs(got.share-c.slow) > 1e-9 || math.Abs(got.fast) > 0.002 || math.Abs(got.slow-0.05) > 0.002) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

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

func TestTimerStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	fine, coarse := make([]float64, 400), make([]float64, 400)
	for i := range fine {
		us := 1000 * (1 + 0.05*rng.NormFloat64())
		fine[i], coarse[i] = us, 5*math.Round(us/5)
	}
	slices.Sort(fine)
	slices.Sort(coarse)
	if step := timerStep(fine); step != 0 {
		t.Errorf("a fine timer has a step of %v", step)
	}
	if step := timerStep(coarse); math.Abs(step-5) > 1e-6 {
		t.Errorf("step %v, want 5", step)
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

func TestOrdered(t *testing.T) {
	for _, c := range []struct {
		name         string
		rows, rounds int
		seq          func(row, round int) int64
		correlation  float64
		is           bool
	}{
		{"ascending", orderRows, 3, func(row, round int) int64 { return int64(100*round + row) }, 1, true},
		{"descending", orderRows, 3, func(row, round int) int64 { return int64(100*round - row) }, -1, true},
		{"there and back", orderRows, 2, func(row, round int) int64 { return int64(row * (1 - 2*round)) }, 0, false},
		{"too few rows", orderRows - 1, 3, func(row, round int) int64 { return int64(100*round + row) }, 0, false},
		{"nobody tells the order", orderRows, 3, func(int, int) int64 { return 0 }, 0, false},
		{"one round tells it", orderRows, 3, func(row, round int) int64 { return int64(row * (round / 2)) }, 1, true},
		{"no samples", orderRows, 0, nil, 0, false},
	} {
		s := results.Series{Key: syntheticKey}
		for row := range c.rows {
			r := results.Row{Case: results.Case{SeriesKey: syntheticKey, M: 8 * (row + 1)}}
			for round := range c.rounds {
				r.Samples = append(r.Samples, results.Sample{Round: round, Seq: c.seq(row, round)})
			}
			s.Rows = append(s.Rows, r)
		}
		if got, is := ordered(s); !(math.Abs(got-c.correlation) < 1e-9) || is != c.is {
			t.Errorf("%s: correlation %v, ordered %v; expected %v and %v", c.name, got, is, c.correlation, c.is)
		}
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
	scatter := func(d Data) float64 {
		p := prepare(d, Default().Basis())
		var se []float64
		for _, pt := range p.curves[0].points {
			se = append(se, pt.us.SE)
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
		var sides [2]Data
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
	at := func(kernel string, dtype kernels.DType) Data {
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
