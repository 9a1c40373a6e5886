package main

import (
	"bytes"
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

var update = flag.Bool("update", false, "write the golden table anew")

// reference is the card that fits begin at.
func reference(t testing.TB) *calibration.Card {
	t.Helper()
	c, err := calibration.Nearest(cudatest.H200.CC, cudatest.H200.SMs, cudatest.H200.Bandwidth)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// another is a card whose constants are off by up to a third from those of the reference, in
// all models or in those named.
func another(t testing.TB, models ...string) *calibration.Card {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	c := reference(t).Clone()
	if len(models) == 0 {
		models = calibration.Names()
	}
	for _, name := range models {
		for _, constant := range c.Models[name].Order(name) {
			scale(c, name, constant, math.Pow(4./3, 2*rng.Float64()-1))
		}
	}
	return c
}

// times are what the candidates of families take on a card whose models are right but for
// noise: of those expected to take less than 1.6 times the fastest, for every case that keep
// takes, up to so many cases; 0 stands for all of the grid.
func times(t testing.TB, on *calibration.Card, noise float64, cases int, keep func(c candidates.Case, family string) bool) []candidates.Time {
	t.Helper()
	restore, err := calibration.Try(on)
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	rng := rand.New(rand.NewPCG(5, 6))
	var all []candidates.Time
	for _, c := range candidates.Grid(1) {
		found := false
		for _, family := range candidates.Families(c.Operation) {
			if !keep(c, family) {
				continue
			}
			expected, err := candidates.Expect(cudatest.H200, c, family)
			if err != nil {
				t.Fatal(err)
			}
			best := math.Inf(1)
			for _, e := range expected {
				best = min(best, e.Seconds)
			}
			for i, e := range expected {
				if e.Seconds < 1.6*best {
					s := e.Seconds * math.Exp(noise*rng.NormFloat64())
					all = append(all, candidates.Time{Case: c, Family: family, Index: i, Label: e.Label, Seconds: s, Interval: [2]float64{0.99 * s, 1.01 * s}})
					found = true
				}
			}
		}
		if found {
			if cases--; cases == 0 {
				break
			}
		}
	}
	return all
}

// few keeps gemv and decode attention, of which much is planned in little time.
func few(_ candidates.Case, family string) bool { return family == "gemv" || family == "decode" }

func samplesOf(t testing.TB, all []candidates.Time) *samples {
	t.Helper()
	s, err := newSamples(cudatest.H200, all, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Constants that are off by up to a third are found again from times with noise, as far as
// times tell them: what is expected of shapes that were held out is right within the noise.
func TestConstantsAreRecovered(t *testing.T) {
	const noise = 0.01
	keep := func(c candidates.Case, family string) bool {
		return few(c, family) || family == "mma" && c.DType == kernels.BF16 && c.N != 6144
	}
	s := samplesOf(t, times(t, another(t, "gemv", "attention_decode", "mma"), noise, 0, keep))
	r, err := refit(s, reference(t), options{evaluations: 160, models: []string{"gemv", "attention_decode", "mma"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.models) != 3 {
		t.Fatalf("fitted %+v", r.models)
	}
	for _, o := range r.models {
		before, after := o.held.before, o.held.after
		if before.rms < 0.02 || after.rms > 2*noise || o.fitted.after.rms > 2*noise || after.cases == 0 {
			t.Errorf("%s: held out %+v became %+v, fitted to %+v", o.name, before, after, o.fitted.after)
		}
		if o.fitted.after.mean > o.fitted.before.mean+1e-9 || o.fitted.after.mean > 0.02 {
			t.Errorf("%s: the mean regret was %v and is %v", o.name, o.fitted.before.mean, o.fitted.after.mean)
		}
	}
}

// What no time depends on stays, as does what is not asked for: models, and single constants.
func TestRestStays(t *testing.T) {
	s := samplesOf(t, times(t, another(t), 0, 40, few))
	for _, c := range []struct {
		models []string
		moves  []string
	}{
		{nil, []string{"attention_decode", "common", "gemv"}},
		{[]string{"gemv"}, []string{"gemv"}},
		{[]string{"mma", "flash"}, nil},
	} {
		start := reference(t)
		r, err := refit(s, start, options{evaluations: 30, models: c.models})
		if err != nil {
			t.Fatal(err)
		}
		var moves []string
		for _, name := range calibration.Names() {
			if !maps.Equal(start.Models[name].Constants, r.card.Models[name].Constants) {
				moves = append(moves, name)
			}
		}
		if !slices.Equal(moves, c.moves) {
			t.Errorf("--model %v: changed %v, want %v", c.models, moves, c.moves)
		}
		if len(r.models) != len(c.moves) || len(r.models)+len(r.kept) != len(start.Models) {
			t.Errorf("--model %v: fitted %v, kept %v", c.models, r.models, r.kept)
		}
		// Of fp32 and of other families, which were not measured.
		for _, k := range [][2]string{{"gemv", "issue"}, {"common", "launch"}, {"common", "memory"}} {
			if got, want := r.card.Models[k[0]].Constants[k[1]], start.Models[k[0]].Constants[k[1]]; got != want {
				t.Errorf("--model %v: %v is %v, was %v, and no time depends on it", c.models, k, got, want)
			}
		}
	}
}

// Shapes are held out, a fifth of them, with all their types and families.
func TestHeldOut(t *testing.T) {
	all := times(t, reference(t), 0, 0, few)
	s := samplesOf(t, all)
	held := map[candidates.Case]bool{}
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
	other, err := newSamples(cudatest.H200, all, 2)
	if err != nil {
		t.Fatal(err)
	}
	if slices.EqualFunc(s.groups, other.groups, func(a, b *group) bool { return a.held == b.held }) {
		t.Error("another seed holds out the same")
	}
}

// The error is that of the times near the best, regret that of the pick.
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
		{logs: log(10, 11, 20), pick: -1}, // another one, which was not measured
	}, nil, false)
	want := figures{cases: 3, times: 9, near: 6, rms: math.Log(1.2) / math.Sqrt(6), mean: (0.1 + 1 + 1) / 3, worst: 1, unmeasured: 1}
	if got.cases != want.cases || got.times != want.times || got.near != want.near || got.unmeasured != want.unmeasured ||
		math.Abs(got.rms-want.rms) > 1e-12 || math.Abs(got.mean-want.mean) > 1e-12 || math.Abs(got.worst-want.worst) > 1e-12 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := assess([]*group{g, held}, []expectation{{}, {logs: []float64{1}}}, [][]bool{{true, true, true}, {true}}, true); got.rms != 1 || got.times != 1 || got.mean != 0 {
		t.Errorf("held out: %+v", got)
	}
}

// Auto picks what any family expects to be fastest, and no family's other times are near then.
func TestJoined(t *testing.T) {
	c := candidates.Grid(1)[0]
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
		{expectation{logs: []float64{2, 2}, least: 2}, expectation{logs: []float64{1, 1}, least: 0.5, pick: -1}, -1, 1.1},
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

// Times far from the best count little, as do times that scatter.
func TestWeights(t *testing.T) {
	all := times(t, reference(t), 0, 1, func(_ candidates.Case, family string) bool { return family == "gemv" })
	all[0].Seconds, all[0].Interval = 1, [2]float64{1, 1}
	all[1].Seconds, all[1].Interval = 2.5, [2]float64{2.5, 2.5}
	all[2].Seconds, all[2].Interval = 1.25, [2]float64{1.2125, 1.2875}
	for i := range all[3:] {
		all[3+i].Seconds, all[3+i].Interval = 1.1, [2]float64{1.1, 1.1}
	}
	g := samplesOf(t, all).groups[0]
	for i, want := range []struct {
		weight float64
		near   bool
	}{{1, true}, {1. / 16, false}, {0.5, true}, {1, true}} {
		if got := g.times[i]; math.Abs(got.weight-want.weight) > 1e-9 || got.near != want.near {
			t.Errorf("time %v in %v: weight %v, near %v, want %+v", all[i].Seconds, all[i].Interval, got.weight, got.near, want)
		}
	}
}

// write makes a file of times on a card with little memory bandwidth, which is not calibrated.
func write(t *testing.T, all []candidates.Time) string {
	t.Helper()
	var b bytes.Buffer
	on := candidates.Describe("NVIDIA H100 80GB HBM3", "570.1", "2026-11-22", cudatest.H200)
	if err := candidates.WriteCard(&b, on); err != nil {
		t.Fatal(err)
	}
	if err := candidates.WriteTimes(&b, all); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "candidates.jsonl")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestRun is the program: the table that it prints, and the file that it writes.
func TestRun(t *testing.T) {
	in := write(t, times(t, another(t, "gemv", "attention_decode", "mma"), 0, 60, func(c candidates.Case, family string) bool {
		return few(c, family) || family == "mma" && c.M <= 8 && c.DType != kernels.FP8
	}))
	out := filepath.Join(t.TempDir(), "h100.json")
	var stdout, stderr bytes.Buffer
	if code := run([]string{in, "--out", out, "--model", "gemv,attention_decode,mma", "--evaluations", "160"}, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	got := strings.ReplaceAll(stdout.String(), out, "h100.json")
	const golden = "testdata/table.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	c, err := calibration.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	restore, err := calibration.Try(c) // every model of the program is there
	if err != nil {
		t.Fatal(err)
	}
	restore()
	if c.Card != "NVIDIA H100 80GB HBM3" || c.Driver != "570.1" || c.Date != "2026-11-22" || c.Capability != 90 || c.SMs != 132 || c.Bandwidth != 4.8e12 {
		t.Errorf("card %+v", c)
	}
	for name, want := range map[string]string{
		"gemv":   " cases: it meets those near the best within 0.",
		"common": "not fitted on this card, as on NVIDIA H200: ",
	} {
		if got := c.Models[name].FittedTo; !strings.Contains(got, want) {
			t.Errorf("%s is fitted to %q, want %q in it", name, got, want)
		}
	}
}

// TestRefuses: arguments and files that can't be are told, with exit codes that differ.
func TestRefuses(t *testing.T) {
	all := times(t, reference(t), 0, 2, few)
	with := func(change func(*candidates.Time)) string {
		other := slices.Clone(all)
		change(&other[1])
		return write(t, other)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "fit: 0 files, expected one file of candidates"},
		{[]string{"a", "b"}, 2, "fit: 2 files, expected one"},
		{[]string{"a", "--model", "naive"}, 2, `fit: --model "naive", expected attention, attention_decode, common, `},
		{[]string{"a", "--evaluations", "0"}, 2, "fit: --evaluations 0, expected at least 1"},
		{[]string{"--what"}, 2, "fit: unknown flag: --what"},
		{[]string{"--help"}, 0, "usage: fit CANDIDATES.jsonl [flags]"},
		{[]string{filepath.Join(t.TempDir(), "none.jsonl")}, 1, "no such file"},
		{[]string{with(func(x *candidates.Time) { x.M = 0 })}, 1, "candidates.jsonl: line 3: m is 0"},
		{[]string{with(func(x *candidates.Time) { x.Label = "fast" })}, 1, `"fast": it was measured by another build`},
		{[]string{with(func(x *candidates.Time) { x.Index = 1000 })}, 1, "it was measured by another build"},
		{[]string{with(func(x *candidates.Time) { *x = all[0] })}, 1, "was measured twice"},
		{[]string{with(func(x *candidates.Time) { x.Family = "tiled" })}, 1, `no family "tiled" chooses`},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(c.args, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%v: exit %d, %q and %q, want %d and %q", c.args, code, stdout.String(), stderr.String(), c.code, c.want)
		}
	}
}

// TestRegretBeside: what auto picks is the group's own candidate or its rival's, whichever is expected to be faster.
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
		"own, of a plan without measures": {rival{least: 2, log: 1.5, best: 1.5}, expectation{least: 0.9, pick: -1}, 0.2},
	} {
		if got := g.regretBeside(c.rival, c.own); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
