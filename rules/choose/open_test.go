package choose

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// chosen sweeps a world as package sweep does with OpenRows: screening rounds on all rows, then rounds on
// open rows. Samples are by row of ms.
func chosen(t testing.TB, w *synthetic.World, cfg rules.Config, ms []int, screening, rounds int) infer.Data {
	t.Helper()
	data := w.Sweep(ms, screening)
	data.Sentinels = nil
	rows := data.Series[0].Rows
	chooser := OpenRows{Config: cfg, Ceilings: map[string]kernels.Ceilings{
		w.Key.Device: {Peaks: []kernels.Peak{{DType: w.Key.DType, FLOPS: 100e12, Origin: kernels.Measured}}},
	}}
	var cases []results.Case
	var samples []results.Sample
	for _, r := range rows {
		cases, samples = append(cases, r.Case), append(samples, r.Samples...)
	}
	for round := screening; round < rounds; round++ {
		open, err := chooser.Open(cases, samples)
		if err != nil {
			t.Fatal(err)
		}
		again := slices.Clone(samples)
		w.RNG.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		if same, err := chooser.Open(cases, again); err != nil || !slices.Equal(same, open) {
			t.Fatalf("round %d: equal questions are answered by %v and %v (%v)", round, open, same, err)
		}
		for k, id := range open {
			r := &rows[id-1]
			s := w.Sample(r.Case, int64(2*round*len(ms)+k), 1, round, results.PhaseSweep)
			r.Samples, samples = append(r.Samples, s), append(samples, s)
		}
	}
	return data
}

func counts(data infer.Data, from, to int) float64 {
	n, rows := 0, 0
	for _, r := range data.Series[0].Rows {
		if r.Case.M >= from && r.Case.M <= to {
			n, rows = n+len(r.Samples), rows+1
		}
	}
	return float64(n) / float64(rows)
}

func TestMoreRoundsWhereAVerdictIsOpen(t *testing.T) {
	const screening, rounds = 7, 15
	ms := synthetic.Grid(4, 1600, 4)
	w := synthetic.ByM(func(m int) float64 {
		us := 0.5 * float64(m)
		switch {
		case m >= 600 && m < 640:
			us /= 0.945 // near the threshold: hard to decide
		case m >= 1000 && m < 1040:
			us /= 0.6 // plain
		}
		return us
	}, synthetic.Student(0.01), rand.New(rand.NewPCG(1, 1)))
	data := chosen(t, w, rules.Default(), ms, screening, rounds)
	if n := counts(data, 600, 639); n < rounds-2 {
		t.Errorf("rows at the bound have %.1f samples, want nearly %d", n, rounds)
	}
	if n := counts(data, 1000, 1039); n > screening+3 {
		t.Errorf("rows that are plainly slow have %.1f samples, want few more than %d", n, screening)
	}
	stopped := 0
	for _, r := range data.Series[0].Rows {
		if len(r.Samples) == screening {
			stopped++
		}
	}
	if stopped < len(ms)*6/10 {
		t.Errorf("%d of %d rows stopped after screening, want most", stopped, len(ms))
	}
}

func TestNothingIsOpen(t *testing.T) {
	w := synthetic.ByM(func(m int) float64 { return 0.5 * float64(m) }, synthetic.Gaussian(0.001), rand.New(rand.NewPCG(1, 1)))
	ms := synthetic.Grid(4, 400, 4)
	for _, r := range chosen(t, w, rules.Default(), ms, 7, 9).Series[0].Rows {
		if len(r.Samples) != 7 {
			t.Fatalf("m%d has %d samples, want 7: all is clear", r.Case.M, len(r.Samples))
		}
	}
	data := w.Sweep(ms, 2)
	var cases []results.Case
	var samples []results.Sample
	for _, r := range data.Series[0].Rows[1:] {
		cases, samples = append(cases, r.Case), append(samples, r.Samples...)
	}
	cases = append(cases, data.Series[0].Rows[0].Case)
	if open, err := (OpenRows{Config: rules.Default()}).Open(cases, samples); err != nil || len(open) != len(ms) {
		t.Errorf("%d of %d rows are open (%v)", len(open), len(ms), err)
	}
	if open, err := (OpenRows{Config: rules.Default()}).Open(nil, nil); err != nil || len(open) != 0 {
		t.Errorf("no cases: %v, %v", open, err)
	}
	if _, err := (OpenRows{}).Open(cases, samples); err == nil {
		t.Error("a configuration out of range is accepted")
	}
}

// The machine slows down when the chosen rounds begin. Without correction, rows near the threshold would
// exceed it, compared with rows that stopped before.
func TestChosenRoundsHideNoDrift(t *testing.T) {
	const screening, rounds, runs = 7, 18, 10
	ms := synthetic.Grid(4, 1600, 4)
	cfg := rules.Default().Only(rules.Monotonic)
	slow := func(m int) bool { return m >= 600 && m < 920 }
	var bias, flagged, near float64
	for run := range runs {
		w := synthetic.ByM(func(m int) float64 {
			if slow(m) {
				return 0.5 * float64(m) / 0.956 // allowed, but hard to decide
			}
			return 0.5 * float64(m)
		}, synthetic.Student(0.01), rand.New(rand.NewPCG(uint64(run), 5)))
		w.Drift = func(seq, _ float64) float64 {
			if seq >= float64(2*screening*len(ms)) {
				return 0.04
			}
			return 0
		}
		data := chosen(t, w, cfg, ms, screening, rounds)
		p := infer.Prepare(data, cfg.Basis())
		for _, pt := range p.Curves[0].Points {
			if slow(pt.M) && pt.N > screening {
				bias += pt.US.Y - math.Log(w.Time(results.Case{M: pt.M}))
				near++
			}
		}
		a, err := rules.RunAudit(context.Background(), data, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		flagged += float64(len(a.Flagged))
	}
	t.Logf("%v rows near the bound chosen, put %.2f %% too slow; %v flagged", near, 100*bias/near, flagged)
	if near < 100 {
		t.Fatalf("only %v rows near the bound were chosen", near)
	}
	if bias /= near; math.Abs(bias) > 0.006 {
		t.Errorf("chosen rows are put %.2f %% too slow, the drift is 4 %%", 100*bias)
	}
	if flagged > 2 {
		t.Errorf("%v rows flagged in %d runs, none is anomalous", flagged, runs)
	}
}

// A large device has about 40, a small one a quarter of its rows, and a larger run's controls are
// among a smaller run's.
func TestControls(t *testing.T) {
	data := synthetic.ByM(func(int) float64 { return 1 }, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(1,
		1))).Sweep(synthetic.Grid(1, 8000, 1), 1)
	s := data.Series[0]
	number := func(v []bool) (n int) {
		for _, is := range v {
			if is {
				n++
			}
		}
		return n
	}
	large, small := infer.Controls(s, 8000), infer.Controls(s, 100)
	if n := number(large); n < 25 || n > 60 {
		t.Errorf("%d control rows of 8000, want about 40", n)
	}
	if n := number(small); n < 1800 || n > 2200 {
		t.Errorf("%d control rows of 8000 at a quarter", n)
	}
	for i := range large {
		if large[i] && !small[i] {
			t.Fatalf("row %d is a control row of the larger run only", i)
		}
	}
}

// Looking after every round, and stopping at clear rows, must not increase false discoveries.
func TestChoosingKeepsTheLevel(t *testing.T) {
	const screening, rounds = 7, 15
	runs := 10
	if testing.Short() {
		runs = 2
	}
	ms := synthetic.Grid(4, 1024, 4)
	cfg := rules.Default().Only(rules.Monotonic)
	for _, s := range synthetic.Scenarios() {
		truth := synthetic.TrulyAnomalous(s.US, ms, cfg.Threshold)
		var c synthetic.Tally
		for run := range runs {
			w := synthetic.ByM(s.US, synthetic.Student(0.02), rand.New(rand.NewPCG(uint64(run), 11)))
			if s.Drift != nil {
				w.Drift = func(seq, _ float64) float64 { return s.Drift(seq, float64(2*rounds*len(ms))) }
			}
			a, err := rules.RunAudit(context.Background(), chosen(t, w, cfg, ms, screening, rounds), cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.Add(a.Flagged, truth, s)
		}
		rate := c.FDP / float64(runs)
		t.Logf("%s: false discovery rate %.4f, %d of %d true rows", s.Name, rate, c.Caught, c.TrueRows)
		if room := 3 * math.Sqrt(cfg.FDR*(1-cfg.FDR)/float64(runs)); rate > cfg.FDR+room {
			t.Errorf("%s: false discovery rate %.3f, stated %.3f", s.Name, rate, cfg.FDR)
		}
	}
}

func BenchmarkOpenRows(b *testing.B) {
	data := synthetic.ByM(synthetic.ManySlow, synthetic.Student(0.02), rand.New(rand.NewPCG(1, 1))).Sweep(synthetic.Grid(4, 16384, 4), 10)
	var cases []results.Case
	var samples []results.Sample
	for _, r := range data.Series[0].Rows {
		cases, samples = append(cases, r.Case), append(samples, r.Samples...)
	}
	o := OpenRows{Config: rules.Default()}
	for b.Loop() {
		if _, err := o.Open(cases, samples); err != nil {
			b.Fatal(err)
		}
	}
}
