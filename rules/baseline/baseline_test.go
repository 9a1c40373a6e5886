package baseline

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func dents(seed uint64, slow func(m int) float64) *synthetic.World {
	return synthetic.ByM(func(m int) float64 { return (float64(m) + 200) * slow(m) }, synthetic.Gaussian(0.01),
		rand.New(rand.NewPCG(seed, 16)))
}

func audited(t *testing.T, seed uint64, slow func(m int) float64) *rules.Audit {
	t.Helper()
	w := dents(seed, slow)
	a, err := rules.RunAudit(context.Background(), w.Sweep(synthetic.Grid(64, 2048, 32), 8), rules.Default().Only(rules.Monotonic), nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func liesIn(m, from, to int) bool { return from <= m && m <= to }

// New measurements change a finding's numbers, ends and worst row, but not its fingerprint.
func TestFingerprintsStandMeasuringAgain(t *testing.T) {
	slow := func(m int) float64 {
		switch {
		case liesIn(m, 288, 352):
			return 1.3
		case liesIn(m, 800, 1000):
			return 1.4
		}
		return 1
	}
	var first []string
	var worst []int
	for seed := range uint64(20) {
		a := audited(t, seed, slow)
		got := Fingerprints(results.Meta{}, a.Findings)
		slices.Sort(got)
		if first == nil {
			first = got
		}
		if len(got) != 2 || !slices.Equal(got, first) {
			t.Errorf("seed %d: fingerprints %q of %d findings, at first %q", seed, got, len(a.Findings), first)
		}
		for _, f := range a.Findings {
			worst = append(worst, f.WorstM)
		}
	}
	slices.Sort(worst)
	if worst = slices.Compact(worst); len(worst) <= 2 {
		t.Errorf("the worst rows are always %v: nothing was put to the test", worst)
	}
}

func TestFingerprintsTellFindingsApart(t *testing.T) {
	f := rules.Finding{Rule: rules.Monotonic, Series: synthetic.Key, FromM: 800, ToM: 1000, WorstM: 900, Loss: stats.Exactly(0.1)}
	of := func(f rules.Finding) string { return Fingerprints(results.Meta{}, []rules.Finding{f})[0] }
	same := f
	same.FromM, same.ToM, same.WorstM, same.Loss, same.Status, same.StakeUS = 832, 1100, 832, stats.Exactly(0.2), rules.Confirmed, 5
	if of(f) != of(same) {
		t.Error("other numbers have another fingerprint")
	}
	for what, change := range map[string]func(*rules.Finding){
		"rule":    func(f *rules.Finding) { f.Rule = rules.SplitRule },
		"kernel":  func(f *rules.Finding) { f.Series.Kernel = "other" },
		"shape":   func(f *rules.Finding) { f.Series.N = 8192 },
		"regime":  func(f *rules.Finding) { f.Series.Regime = results.Hot },
		"threads": func(f *rules.Finding) { f.Series.Threads = 4 },
		"octave":  func(f *rules.Finding) { f.FromM = 400 },
	} {
		other := f
		change(&other)
		if of(other) == of(f) {
			t.Errorf("another %s has the same fingerprint", what)
		}
	}
	two := Fingerprints(results.Meta{}, []rules.Finding{same, f})
	if two[0] == two[1] || two[1] != of(f) {
		t.Errorf("two findings that begin in one octave have %q; the first by M has %q alone", two, of(f))
	}
}

func TestOctavesFollowEachOther(t *testing.T) {
	last := 0
	for m := 1; m <= 1<<16; m++ {
		from, to := Octave(m)
		if m < from || m > to || from != last && from != m {
			t.Fatalf("M %d is in %d to %d, the one before ends behind %d", m, from, to, last)
		}
		last = from
	}
}

func TestHoldAgainstABaseline(t *testing.T) {
	dent := func(from, to int, by float64) func(int) float64 {
		return func(m int) float64 {
			if liesIn(m, from, to) {
				return by
			}
			return 1
		}
	}
	base := audited(t, 1, dent(800, 1000, 1.3))
	for _, c := range []struct {
		name string
		slow func(int) float64
		want []rules.BaselineState
	}{
		{"the same machine", dent(800, 1000, 1.3), []rules.BaselineState{rules.BaselineKnown}},
		{"it loses less", dent(800, 1000, 1.2), []rules.BaselineState{rules.BaselineKnown}},
		{"it loses more", dent(800, 1000, 1.5), []rules.BaselineState{rules.BaselineGrown}},
		{"it reaches a row farther", dent(768, 1000, 1.3), []rules.BaselineState{rules.BaselineKnown}},
		{"it reaches much farther", dent(800, 1900, 1.3), []rules.BaselineState{rules.BaselineGrown}},
		{"it is gone", dent(1, 0, 1), nil},
		{"it is elsewhere", dent(300, 400, 1.3), []rules.BaselineState{rules.BaselineNew}},
		{"it is elsewhere in its octave", dent(1100, 1300, 1.3), []rules.BaselineState{rules.BaselineNew}},
	} {
		for seed := range uint64(5) {
			a := audited(t, 100+seed, c.slow)
			Hold(a, results.Meta{}, base, results.Meta{})
			var got []rules.BaselineState
			for _, f := range a.Findings {
				got = append(got, f.Baseline)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s, seed %d: %q, expected %q", c.name, seed, got, c.want)
			}
		}
	}
	for _, c := range []struct {
		before, now cause.Kind
		want        rules.BaselineState
	}{{cause.Clock, cause.Clock, rules.BaselineKnown}, {cause.Unknown, cause.Clock, rules.BaselineKnown}, {cause.Clock, cause.Unknown,
		rules.BaselineKnown}, {cause.MemoryBound, cause.Clock, rules.BaselineNew}} {
		a, was := audited(t, 7, dent(800, 1000, 1.3)), *base
		was.Findings = slices.Clone(base.Findings)
		was.Findings[0].Cause, a.Findings[0].Cause = c.before, c.now
		if Hold(a, results.Meta{}, &was, results.Meta{}); a.Findings[0].Baseline != c.want {
			t.Errorf("cause %s after %s is %s, expected %s", c.now, c.before, a.Findings[0].Baseline, c.want)
		}
	}
	moved := audited(t, 3, dent(800, 1000, 1.3))
	for i := range moved.Findings {
		moved.Findings[i].Series.Kernel = "other"
	}
	for i := range moved.Series {
		moved.Series[i].Key.Kernel = "other"
	}
	Hold(moved, results.Meta{}, base, results.Meta{})
	if moved.Findings[0].Baseline != rules.BaselineNew || len(moved.Warnings) == 0 {
		t.Errorf("of another kernel it is %q, with the warnings %v", moved.Findings[0].Baseline, moved.Warnings)
	}
}
