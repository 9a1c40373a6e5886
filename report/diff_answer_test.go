package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/problem"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func TestDiffSentences(t *testing.T) {
	changes := &problem.Changes{Same: 4, New: []*problem.Problem{{FromM: 320, ToM: 352, Kernels: []string{"cublas"}}}}
	for _, c := range []struct {
		name     string
		change   func(*diff.Result)
		problems *problem.Changes
		has, not []string
		tone     Tone
	}{
		{name: "slower", change: func(d *diff.Result) { d.GeomeanOverRows = stats.Interval{Lo: 1.012, Mid: 1.015, Hi: 1.018} },
			has: []string{"1.5 % slower", "1.2 to 1.8 %", "4 cases", "Worst: ", "M 128: 3910 to 4301 us (1.10x)", "1 case is undecided"},
			not: []string{"Problems"}, tone: Bad},
		{name: "faster", change: func(d *diff.Result) { d.GeomeanOverRows = stats.Interval{Lo: 0.78, Mid: 0.8, Hi: 0.82} },
			has: []string{"25 % faster", "22 to 28 %"}, tone: Bad},
		{name: "as fast", change: func(d *diff.Result) { d.GeomeanOverRows = stats.Interval{Lo: 0.99, Mid: 1, Hi: 1.02} },
			has: []string{"as fast", "1 % faster to 2 % slower"}, tone: Bad},
		{name: "unclear", change: func(d *diff.Result) { d.GeomeanOverRows = stats.Interval{Lo: 0.9, Mid: 1, Hi: 1.02} },
			has: []string{"11 % faster to 2 % slower"}, not: []string{"as fast"}, tone: Bad},
		{name: "one case", change: func(d *diff.Result) { d.GeomeanOverRows = stats.Interval{Mid: 1.5}; d.Cases = d.Cases[:1] },
			has: []string{"1.50x the time", "1 case "}, not: []string{"Worst"}, tone: Bad},
		{name: "nothing changed", change: func(d *diff.Result) {
			d.Slower, d.Faster, d.Undecided, d.Gate, d.Cases = 0, 0, 0, false, d.Cases[:1]
		},
			has: []string{"no case"}, not: []string{"undecided", "Worst"}, tone: Good},
		{name: "stretches", change: func(d *diff.Result) { d.SlowerStretches, d.SlowerSeries = 1, 2 },
			has: []string{"1 stretch of M and 2 whole series"}, tone: Bad},
		{name: "suspected", change: func(d *diff.Result) { d.SuspectedSlower, d.SuspectedFaster = 3, 2 },
			has: []string{"3 may be slower, 2 may be faster"}, tone: Bad},
		{name: "problems", change: func(*diff.Result) {}, problems: changes,
			has: []string{"4 the same, 1 new in B, 0 gone", "on cublas"}, tone: Bad},
		{name: "invalid", change: func(d *diff.Result) { d.Invalid = "B drifted" }, problems: changes,
			has: []string{"can't be compared", "B drifted"}, not: []string{"slower", "faster", "Problems", "undecided"}, tone: Bad},
		{name: "disturbed", change: func(d *diff.Result) { d.Invalid, d.Disturbance = "other work", "other work" },
			has: []string{"other work", "Measure B again"}, not: []string{"faster"}, tone: Bad},
		{name: "disturbed A", change: func(d *diff.Result) {
			d.Invalid, d.Disturbance = "other work", "other work"
			d.DisturbedA, d.DisturbedB = diff.Disturbed{Samples: 100, Disturbed: 44}, diff.Disturbed{Samples: 200, Disturbed: 50}
		},
			has: []string{"Measure A again"}, not: []string{"Measure B"}, tone: Bad},
	} {
		d := fixtureDiff()
		c.change(d)
		notes := diffSentences(d, c.problems)
		var text []string
		for _, n := range notes {
			text = append(text, n.Text)
		}
		all := strings.Join(text, "\n")
		for _, want := range c.has {
			if !strings.Contains(all, want) {
				t.Errorf("%s: %q is missing in:\n%s", c.name, want, all)
			}
		}
		if i := slices.IndexFunc(c.not, func(s string) bool { return strings.Contains(all, s) }); i >= 0 {
			t.Errorf("%s: %q in:\n%s", c.name, c.not[i], all)
		}
		if notes[0].Tone != c.tone {
			t.Errorf("%s: tone %v, want %v", c.name, notes[0].Tone, c.tone)
		}
	}
}
