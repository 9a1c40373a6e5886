package main

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

func samplesOf(t testing.TB, all []timed) *samples {
	t.Helper()
	s, err := newSamples(cudatest.H200, all)
	if err != nil {
		t.Fatal(err)
	}
	s.holdOut(1)
	return s
}

// The fit recovers constants that are off by up to a third from noisy times.
func TestConstantsAreRecovered(t *testing.T) {
	const noise = 0.01
	keep := func(c sized, family string) bool {
		return few(c, family) || family == "mma" && c.DType == kernels.BF16 && c.N != 6144
	}
	s := samplesOf(t, made(t, another(t, "gemv", "attention_decode", "mma"), noise, 0, keep))
	r, err := refit(s, reference(t), []string{"gemv", "attention_decode", "mma"}, 160)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Models) != 3 {
		t.Fatalf("fitted %+v", r.Models)
	}
	for _, o := range r.Models {
		before, after := o.Held.Before, o.Held.After
		if before.RMS < 0.02 || after.RMS > 2*noise || o.Fitted.After.RMS > 2*noise || after.Cases == 0 {
			t.Errorf("%s: held out %+v became %+v, fitted to %+v", o.Name, before, after, o.Fitted.After)
		}
		if o.Fitted.After.Mean > o.Fitted.Before.Mean+1e-9 || o.Fitted.After.Mean > 0.02 {
			t.Errorf("%s: the mean regret was %v and is %v", o.Name, o.Fitted.Before.Mean, o.Fitted.After.Mean)
		}
	}
}

func TestRecordedClock(t *testing.T) {
	from := reference(t)
	const constant, name = "clock", "hopper"
	right := from.Models[name].Constants[constant]
	times := made(t, from, 0, 0, func(c sized, family string) bool {
		return family == name && c.DType == kernels.BF16 && c.N == 4096 && c.K == 4096 && c.M >= tensorRows
	})
	for i := range times {
		times[i].mhz = right.Value * cudatest.H200.ClockMHz
	}
	wrong := from.Clone()
	q := right
	q.Value /= 2
	wrong.Models[name].Constants[constant] = q
	for _, c := range []struct {
		recorded bool
		clock    float64
	}{{true, right.Value}, {false, q.Value}} {
		if !c.recorded {
			for i := range times {
				times[i].mhz = 0
			}
		}
		s := samplesOf(t, times)
		all, err := s.expected(s.groups, wrong)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range s.groups {
			for j, one := range g.times {
				if met := math.Abs(all[i].logs[j]-one.log) < 1e-9; met != c.recorded {
					t.Fatalf("%v: %v expected, %v measured, recorded %t", g.c, all[i].logs[j], one.log, c.recorded)
				}
			}
		}
		r, err := refit(s, wrong, []string{name}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Card.Models[name].Constants[constant].Value; math.Abs(got-c.clock) > 1e-4 {
			t.Errorf("the clock is %v, want %v, recorded %t", got, c.clock, c.recorded)
		}
	}
}

func TestRestStays(t *testing.T) {
	s := samplesOf(t, made(t, another(t), 0, 40, few))
	for _, c := range []struct {
		models []string
		moves  []string
	}{
		{nil, []string{"attention_decode", "common", "gemv"}},
		{[]string{"gemv"}, []string{"gemv"}},
		{[]string{"mma", "flash"}, nil},
	} {
		start := reference(t)
		r, err := refit(s, start, c.models, 30)
		if err != nil {
			t.Fatal(err)
		}
		var moves []string
		for _, name := range calibration.Names() {
			if !maps.Equal(start.Models[name].Constants, r.Card.Models[name].Constants) {
				moves = append(moves, name)
			}
		}
		if !slices.Equal(moves, c.moves) {
			t.Errorf("--model %v: changed %v, want %v", c.models, moves, c.moves)
		}
		if len(r.Models) != len(c.moves) || len(r.Models)+len(r.Kept) != len(start.Models) {
			t.Errorf("--model %v: fitted %v, kept %v", c.models, r.Models, r.Kept)
		}
		for _, k := range [][2]string{{"gemv", "issue"}, {"common", "launch"}, {"common", "memory"}} {
			if got, want := r.Card.Models[k[0]].Constants[k[1]], start.Models[k[0]].Constants[k[1]]; got != want {
				t.Errorf("--model %v: %v is %v, was %v, and no time depends on it", c.models, k, got, want)
			}
		}
	}
}

// A fifth of the shapes is held out, with all their types and families.
func TestHeldOut(t *testing.T) {
	all := made(t, reference(t), 0, 0, few)
	s := samplesOf(t, all)
	held := map[sized]bool{}
	out := 0
	for _, g := range s.groups {
		k := shape(g.c)
		if was, seen := held[k]; seen && was != g.held {
			t.Errorf("%v is held out in some types", k)
		} else if !seen && g.held {
			out++
		}
		held[k] = g.held
	}
	if want := int(heldOut * float64(len(held))); out != want || out == 0 {
		t.Errorf("%d of %d shapes are held out, want %d", out, len(held), want)
	}
	other, err := newSamples(cudatest.H200, all)
	if err != nil {
		t.Fatal(err)
	}
	other.holdOut(2)
	if slices.EqualFunc(s.groups, other.groups, func(a, b *group) bool { return a.held == b.held }) {
		t.Error("another seed holds out the same")
	}
}

func TestFigures(t *testing.T) {
	log := func(x ...float64) (all []float64) {
		for _, v := range x {
			all = append(all, math.Log(v))
		}
		return all
	}
	g := &group{times: []measured{{log: math.Log(10), near: true}, {log: math.Log(11), near: true}, {log: math.Log(20)}}}
	held := &group{held: true, times: []measured{{log: 0, near: true}}}
	got := assess([]*group{g, held, g, g}, []expectation{
		{logs: log(12, 11, 13), pick: 1},
		{logs: []float64{1}},
		{logs: log(10, 11, 9), pick: 2},
		{logs: log(10, 11, 20), pick: 2, unmeasured: true},
	}, nil, false)
	want := figures{Cases: 3, Times: 9, Near: 6, RMS: math.Log(1.2) / math.Sqrt(6), Mean: (0.1 + 1 + 1) / 3, Worst: 1, Unmeasured: 1}
	if got.Cases != want.Cases || got.Times != want.Times || got.Near != want.Near || got.Unmeasured != want.Unmeasured ||
		math.Abs(got.RMS-want.RMS) > 1e-12 || math.Abs(got.Mean-want.Mean) > 1e-12 || math.Abs(got.Worst-want.Worst) > 1e-12 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := assess([]*group{g, held}, []expectation{{}, {logs: []float64{1}}}, [][]bool{{true, true, true}, {true}},
		true); got.RMS != 1 || got.Times != 1 || got.Mean != 0 {
		t.Errorf("held out: %+v", got)
	}
}

func TestJoined(t *testing.T) {
	c := grid(1)[0]
	groups := []*group{
		{c: c, family: "mma", times: []measured{{log: 2, near: true}, {log: 2.1, near: true}}},
		{c: c, family: "hopper", times: []measured{{log: 1, near: true}, {log: 1.1, near: true}}},
	}
	for _, x := range []struct {
		mma, hopper expectation
		pick        int
		regret      float64
	}{
		{expectation{logs: []float64{2, 2}, least: 2}, expectation{logs: []float64{1, 1}, least: 1, pick: 1}, 3, 0.1},
		{expectation{logs: []float64{1, 2}, least: 1}, expectation{logs: []float64{2, 2}, least: 2}, 0, 1},
		{expectation{logs: []float64{2, 2}, least: 2}, expectation{logs: []float64{1, 1}, least: 0.5, pick: 1, unmeasured: true}, 3, 0.1},
	} {
		all, e := joined(groups, []expectation{x.mma, x.hopper})
		if len(all) != 1 || len(all[0].times) != 4 || len(e[0].logs) != 4 {
			t.Fatalf("joined %+v, %+v", all, e)
		}
		if got := all[0].regret(e[0]); e[0].pick != x.pick || math.Abs(got-x.regret) > 1e-12 {
			t.Errorf("%+v and %+v: pick %d with regret %v, want %d and %v", x.mma, x.hopper, e[0].pick, got, x.pick, x.regret)
		}
		for i, near := range []bool{false, false, true, true} {
			if all[0].times[i].near != near {
				t.Errorf("time %d: near is %v", i, !near)
			}
		}
	}
}

func TestWeights(t *testing.T) {
	all := made(t, reference(t), 0, 1, func(_ sized, family string) bool { return family == "gemv" })
	all[0].seconds, all[0].interval = 1, [2]float64{1, 1}
	all[1].seconds, all[1].interval = 2.5, [2]float64{2.5, 2.5}
	all[2].seconds, all[2].interval = 1.25, [2]float64{1.2125, 1.2875}
	for i := range all[3:] {
		all[3+i].seconds, all[3+i].interval = 1.1, [2]float64{1.1, 1.1}
	}
	g := samplesOf(t, all).groups[0]
	for i, want := range []struct {
		weight float64
		near   bool
	}{{1, true}, {1. / 16, false}, {0.5, true}, {1, true}} {
		if got := g.times[i]; math.Abs(got.weight-want.weight) > 1e-9 || got.near != want.near {
			t.Errorf("time %v in %v: weight %v, near %v, want %+v", all[i].seconds, all[i].interval, got.weight, got.near, want)
		}
	}
}

func TestRegretBeside(t *testing.T) {
	g := &group{times: []measured{{log: 1.0}, {log: 1.2}}}
	for name, c := range map[string]struct {
		rival rival
		own   expectation
		want  float64
	}{
		"own, and the fastest":            {rival{least: 2, log: 1.5, best: 1.5}, expectation{least: 0.9, pick: 0}, 0},
		"own, but the rival is faster":    {rival{least: 2, log: 0.7, best: 0.6}, expectation{least: 0.9, pick: 0}, 0.4},
		"own, not the fastest":            {rival{least: 2, log: 1.5, best: 1.5}, expectation{least: 0.9, pick: 1}, 0.2},
		"the rival's, which is slower":    {rival{least: 0.8, log: 1.5, best: 1.4}, expectation{least: 0.9, pick: 0}, 0.5},
		"the rival's, which is faster":    {rival{least: 0.8, log: 0.5, best: 0.5}, expectation{least: 0.9, pick: 1}, 0},
		"no other family":                 {rival{least: math.Inf(1), best: math.Inf(1)}, expectation{least: 0.9, pick: 1}, 0.2},
		"own, of a plan without measures": {rival{least: 2, log: 1.5, best: 1.5}, expectation{least: 0.9, pick: 1, unmeasured: true}, 0.2},
	} {
		if got := g.regretBeside(c.rival, c.own); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
