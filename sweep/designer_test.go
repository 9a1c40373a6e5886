package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/choose"
)

func TestDesignerChoosesTheRows(t *testing.T) {
	d := stepped()
	p, err := inferring(d)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Cases()) != 0 || p.Rows() != 393 {
		t.Fatalf("%d cases, %d rows", len(p.Cases()), p.Rows())
	}
	run := newRun(t, p)
	w := &watcher{}
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now, Designer: halver{every: 32},
		Chooser: choose.OpenRows{Config: rules.Default()}}).Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	rows := designedAsAsked(t, p, run, halver{every: 32})
	for _, m := range []int{99, 100, 150, 151} {
		if len(rows[m]) < p.Screening {
			t.Errorf("m%d, an end of what is slow, has %d samples", m, len(rows[m]))
		}
	}
	if len(rows) > 30 {
		t.Errorf("%d rows were measured", len(rows))
	}
	for m, of := range rows {
		if len(of) > p.Rounds+4*p.Screening {
			t.Errorf("m%d has %d samples", m, len(of))
		}
	}
	want := Known{Rows: 393, Measured: len(rows), Inferred: 393 - len(rows)}
	if sum.Known != want || sum.Known.Open() != 0 || w.last.Known.Rows != 393 || w.last.Done != w.last.Planned {
		t.Errorf("known %+v, expected %+v; progress %+v", sum.Known, want, w.last)
	}
	var stored Known
	if err := json.Unmarshal([]byte(state(t, run, StateKnown)), &stored); err != nil || stored != want {
		t.Errorf("stored %+v, %v", stored, err)
	}
	again, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Designer: halver{every: 32},
		Chooser: choose.OpenRows{Config: rules.Default()}}).Run(context.Background())
	if err != nil || again.Samples != 0 || again.Known != want {
		t.Errorf("another start: %+v, %v", again, err)
	}
}

func TestControlsAreMeasuredWithLateRows(t *testing.T) {
	d := stepped()
	p, err := inferring(d)
	if err != nil {
		t.Fatal(err)
	}
	run := newRun(t, p)
	chooser := choose.OpenRows{Config: rules.Default()}
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Designer: halver{every: 8},
		Chooser: chooser}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	cases, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	samples, err := run.Samples(results.PhaseSweep)
	if err != nil {
		t.Fatal(err)
	}
	late := map[int64]bool{}
	var seeds []results.Case
	for _, c := range cases {
		late[c.ID] = !slices.ContainsFunc(samples, func(s results.Sample) bool { return s.CaseID == c.ID && s.Round == 0 })
		if !late[c.ID] {
			seeds = append(seeds, c)
		}
	}
	ids := chooser.Controls(seeds)
	if len(ids) == 0 || len(ids) > len(seeds)/2 {
		t.Fatalf("%d control rows of %d", len(ids), len(seeds))
	}
	for _, s := range samples {
		if !late[s.CaseID] || s.Round >= 2*p.Screening {
			continue
		}
		for _, id := range ids {
			if !slices.ContainsFunc(samples, func(o results.Sample) bool { return o.CaseID == id && o.Round == s.Round }) {
				t.Fatalf("round %d has no sample of control row %d", s.Round, id)
			}
		}
	}
}

const designVariable = "GEMMAUDIT_TEST_DESIGN"

func TestKilledDesignGoesOn(t *testing.T) {
	kills := 6
	if testing.Short() {
		kills = 2
	}
	path := filepath.Join(t.TempDir(), "run.db")
	rng := rand.New(rand.NewPCG(5, 12))
	for kill := range kills {
		d := death{Samples: 1 + rng.IntN(6), Round: 5, After: time.Duration(rng.Int64N(int64(300 * time.Microsecond)))}
		if _, finished := start(t, path, designVariable+"=1", deathVariable+"="+d.String()); finished {
			t.Fatalf("the sweep was complete before kill %d: it is too short for this test", kill+1)
		}
	}
	p, run := finished(t, path, designVariable+"=1")
	if rows := designedAsAsked(t, p, run, halver{every: 32}); len(rows[100]) < p.Screening {
		t.Errorf("m100 has %d samples", len(rows[100]))
	}
}

// The most informative seeds come first, so an early end still has the ends of the series.
func TestStepsComeInTheOrderOfWorth(t *testing.T) {
	d := stepped()
	p, err := inferring(d)
	if err != nil {
		t.Fatal(err)
	}
	p.Step = time.Duration(p.Screening) * 4 * p.BlockTarget
	run := newRun(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	stop := &watcher{at: func(n int) {
		if n == p.Screening*5 {
			cancel()
		}
	}}
	runner := &Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Designer: halver{every: 16}, Observer: stop}
	var interrupted *InterruptedError
	sum, err := runner.Run(ctx)
	if !errors.As(err, &interrupted) {
		t.Fatal(err)
	}
	cases, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	var ms []int
	for _, c := range cases {
		ms = append(ms, c.M)
	}
	if len(ms) > 12 || !slices.Contains(ms, 8) || !slices.Contains(ms, 400) || sum.Known.Measured > len(ms) {
		t.Errorf("rows %v were begun with; known %+v", ms, sum.Known)
	}
	runner.Observer = nil
	if sum, err = runner.Run(t.Context()); err != nil || sum.Status != StatusComplete || sum.Known.Open() != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	seeds, err := p.Seeds(runner.Designer, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cases, err = run.Cases(); err != nil {
		t.Fatal(err)
	}
	for _, m := range seeds[p.Series[0].SeriesKey] {
		if !slices.ContainsFunc(cases, func(c results.Case) bool { return c.M == m }) {
			t.Errorf("seed m%d was left", m)
		}
	}
}

func TestDeadlineKeepsWhatIsKnown(t *testing.T) {
	d := stepped()
	p, err := inferring(d)
	if err != nil {
		t.Fatal(err)
	}
	p.Deadline = 60 * time.Millisecond
	run := newRun(t, p)
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Designer: halver{every: 32}}).Run(t.Context())
	if err != nil || sum.Status != StatusDeadline || sum.Samples == 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if k := sum.Known; k.Inferred == 0 || k.Rows != p.Rows() {
		t.Errorf("known %+v", k)
	}
	late, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: newRun(t, p), Now: d.Now, Began: d.Now().Add(-p.Deadline / 2),
		Designer: halver{every: 32}}).Run(t.Context())
	if err != nil || late.Status != StatusDeadline || late.Samples >= sum.Samples || late.Samples == 0 {
		t.Errorf("begun earlier: %d samples, %d otherwise; %v", late.Samples, sum.Samples, err)
	}
}

type greedy struct {
	halver
	cases []results.Case
	err   error
}

func (g greedy) More([]PlannedSeries, map[results.SeriesKey]results.Choices, []results.Case,
	[]results.Sample) ([]results.Case, int, error) {
	return g.cases, 0, g.err
}

type wild struct{ halver }

func (wild) Seeds(PlannedSeries, results.Choices) (Batches, error) { return Batches{7}, nil }

func TestDesignersAreHeldToThePlan(t *testing.T) {
	d := stepped()
	p, err := inferring(d)
	if err != nil {
		t.Fatal(err)
	}
	of := p.Series[0]
	other := of
	other.N = 128
	for name, c := range map[string]struct {
		designer Designer
		want     string
	}{
		"none":             {nil, "nothing chooses"},
		"a seed outside":   {wild{}, "m7 is not in the plan"},
		"a row outside":    {greedy{halver: halver{every: 100}, cases: []results.Case{of.Case(401)}}, "m401 n64 k64"},
		"a series outside": {greedy{halver: halver{every: 100}, cases: []results.Case{other.Case(8)}}, "m8 n128 k64"},
		"a padded row": {greedy{halver: halver{every: 100}, cases: []results.Case{{SeriesKey: of.SeriesKey, M: 9, PadTo: 16}}},
			"is not in an inferred series"},
		"an error":             {greedy{halver: halver{every: 100}, err: errors.New("no idea")}, "choosing the rows of round 7: no idea"},
		"what is there, again": {greedy{halver: halver{every: 100}, cases: []results.Case{of.Case(8)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: newRun(t, p), Now: d.Now, Designer: c.designer,
				Chooser: choose.OpenRows{Config: rules.Default()}}).Run(t.Context())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
}

func TestLateRowsMayBeLarger(t *testing.T) {
	d := stepped()
	p, err := inferring(d)
	if err != nil {
		t.Fatal(err)
	}
	late := p.Series[0].Case(400)
	run := newRun(t, p)
	g := greedy{halver: halver{every: 200}, cases: []results.Case{late}}
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Designer: short{g}}).Run(t.Context())
	if err != nil || sum.Failures > 0 || sum.Known.Measured != 3 {
		t.Errorf("%+v, %v", sum, err)
	}
}

type short struct{ greedy }

func (s short) Seeds(p PlannedSeries, c results.Choices) (Batches, error) {
	ms, err := s.greedy.Seeds(p, c)
	return ms[:len(ms)-1], err
}

func TestShardsTakeInferredSeriesWhole(t *testing.T) {
	d, _ := machine(t, 1)
	yes := true
	var targets []Target
	for n := range 7 {
		targets = append(targets, Target{N: 64 * (n + 1), K: 64})
	}
	p, err := NewPlan(t.Context(), []kernels.Device{d},
		Options{Targets: append(targets, Target{N: 32, K: 32, M: 5}), Batches: Batches(upTo(100)), Infer: &yes,
			DTypes: []kernels.DType{kernels.FP32}, Kernels: []string{"tiled"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const parts = 3
	seen := map[results.SeriesKey]int{}
	rows, cases := 0, 0
	for i := range parts {
		p.Shard = Shard{i + 1, parts}
		whole := 0
		for _, s := range p.Own() {
			seen[s.SeriesKey]++
			if s.Infer {
				whole++
				if len(s.Ms) != 100 {
					t.Errorf("%v has %d Ms", s.SeriesKey, len(s.Ms))
				}
			}
		}
		if whole < 2 || whole > 3 {
			t.Errorf("shard %v has %d series", p.Shard, whole)
		}
		rows += p.Rows()
		cases += len(p.Cases())
	}
	if rows != 701 || cases != 1 || len(seen) != 8 {
		t.Errorf("%d rows, %d cases, series %v", rows, cases, seen)
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%v is in %d shards", key, n)
		}
	}
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

// Each device has its own design. A device that was missing resumes its own.
func TestCardsInferSideBySide(t *testing.T) {
	h := cards(2, func(card int, c *simulated.Config) {
		c.ClockMHz = 0
		c.Gemms[0].Cost = simulated.Slow(simulated.Linear(1e10, 0), 100+20*card, 150, 2)
	})
	yes := true
	p := h.plan(t, "8:400", func(o *Options) {
		o.Infer, o.Rounds, o.Screening, o.Targets = &yes, 15, 7, []Target{{N: 256, K: 128}, {N: 128, K: 256}}
	})
	run := newRun(t, p)
	r := &Runner{Plan: p, Devices: h.devices()[:1], Out: run, Now: h.now, Designer: halver{every: 32}, MemoryBudget: 3 << 20,
		Chooser: choose.OpenRows{Config: rules.Default()}}
	sum, err := r.Run(t.Context())
	if err != nil || len(sum.Missing) != 1 || sum.Known.Rows != 2*393 {
		t.Fatalf("one card: %+v, %v", sum, err)
	}
	r.Devices = h.devices()
	if sum, err = r.Run(t.Context()); err != nil || sum.Known.Rows != 4*393 || sum.Known.Open() != 0 || sum.Status != StatusComplete {
		t.Fatalf("both: %+v, %v", sum, err)
	}
	if !slices.ContainsFunc(sum.Notes, func(n string) bool { return strings.Contains(n, "2 sets that take turns") }) {
		t.Errorf("notes %q", sum.Notes)
	}
	cases, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	for card, ends := range map[string][]int{"cuda:0": {99, 100, 150, 151}, "cuda:1": {119, 120, 150, 151}} {
		for _, n := range []int{256, 128} {
			for _, m := range ends {
				if !slices.ContainsFunc(cases, func(c results.Case) bool { return c.Device == card && c.N == n && c.M == m }) {
					t.Errorf("%s n%d: m%d was not found", card, n, m)
				}
			}
		}
	}
}
