package fleet_test

import (
	"bytes"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/fleet/trial"
)

func TestTelling(t *testing.T) {
	of := func(kernel string, m int, process, us float64, memory bool) fleet.BaselineCase {
		c := fleet.BaselineCase{Series: results.SeriesKey{Kernel: kernel}, M: m, US: us, Memory: memory}
		if process > 0 {
			c.Process = &process
		}
		return c
	}
	g := fleet.BaselineGroup{Cases: []fleet.BaselineCase{
		of("b", 1, 0.003, 5, false), of("b", 2, 0.001, 5, false), of("b", 3, 0, 1, false), of("b", 4, 0.003, 4, false),
		of("a", 5, 0.009, 5, true), of("a", 6, 0.002, 9, false),
	}}
	var got []int
	for _, c := range g.Telling() {
		got = append(got, c.M)
	}
	// Families alternate: a compute-bound, a memory-bound, b; the case with unknown variation is last.
	want := []int{6, 5, 2, 4, 1, 3}
	if len(got) != len(want) {
		t.Fatalf("%v, expected %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, expected %v", got, want)
		}
	}
}

func Some(r runs.Run, g *fleet.BaselineGroup, n int) runs.Run {
	type place struct {
		series results.SeriesKey
		m      int
	}
	taken := map[place]bool{}
	for _, c := range g.Telling()[:n] {
		taken[place{c.Series, c.M}] = true
	}
	var series []results.Series
	for _, s := range r.Series {
		key := s.Key
		key.Device = ""
		rows := s.Rows
		s.Rows = nil
		for _, row := range rows {
			if taken[place{key, row.Case.M}] {
				s.Rows = append(s.Rows, row)
			}
		}
		if len(s.Rows) > 0 {
			series = append(series, s)
		}
	}
	r.Series, r.Sentinels = series, nil
	return r
}

// A check of a few cases drains no normal card, and nearly all cards that are 5 % slower.
func TestChecksOfFewCases(t *testing.T) {
	const cards, cases = 200, 6
	faults := map[int]trial.Fault{}
	for i := range cards {
		if i%2 == 1 {
			faults[i] = trial.Fault{Kind: fleet.AllCases, Depth: 0.05}
		}
	}
	well := trial.Default(32, 1)
	var b bytes.Buffer
	written := trial.New(well).Judge(fleet.Default(), nil)
	if err := written.Baseline().Write(&b); err != nil {
		t.Fatal(err)
	}
	baseline, err := fleet.ReadBaseline(&b)
	if err != nil {
		t.Fatal(err)
	}
	c := trial.Default(cards, 2)
	c.Processes, c.Drift, c.Wander, c.Faults = 1, 0, 0, faults
	f := trial.New(c)
	drained := map[bool]int{}
	for i := range cards {
		r := f.Run(i, 0)
		g, model := baseline.For(r.Meta, "cuda:0")
		if g == nil || model != trial.Model {
			t.Fatalf("there is no group of %s", model)
		}
		checks := baseline.Judge(Some(r, g, cases), fleet.Default())
		if len(checks) != 1 || checks[0].Cases != cases {
			t.Fatalf("card %d: %+v", i, checks)
		}
		if checks[0].Verdict == fleet.Drain {
			drained[i%2 == 1]++
		}
	}
	t.Logf("%d of %d slow cards and %d of %d others are drained", drained[true], cards/2, drained[false], cards/2)
	if drained[false] > 0 || drained[true] < 95*cards/200 {
		t.Errorf("%d of %d slow cards and %d of %d others are drained", drained[true], cards/2, drained[false], cards/2)
	}
}
